// The schema's versions: the tables of version 1 and one step for each version after it.
//
// A new store is made by the same steps as an old one is brought here by, so that both are the
// same. All steps of an old store are one transaction, which is committed when what it will hold
// was read and taken: a crash, a full disk or a contradiction leaves the old version as it was.
// docs/decisions.md: "A store moves to the next version at once".
//
// A new version: add a step to kSteps, raise kSchemaVersion, and commit a store of the version
// before (tests/data/store/README.md).
#pragma once

#include <cstdint>

#include "result.h"
#include "store/sqlite.h"

namespace pergpu::store {

inline constexpr std::int32_t kSchemaVersion = 5;

/// All tables, and the version.  REQUIRES: an empty database, inside a transaction.
Result<void> create_tables(Database& database);

/// What is read from now on is of this version; no byte of the files is changed.  REQUIRES:
/// `version` is that of the database, at least 1 and at most kSchemaVersion.
Result<void> begin_migration(Database& database, std::int64_t version);
/// To be called for a store of this version, too.
Result<void> commit_migration(Database& database);

}  // namespace pergpu::store
