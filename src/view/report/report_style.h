// The look of a report, and the few lines of JavaScript that sort its tables.
#pragma once

#include <string_view>

namespace pergpu::view {

extern const std::string_view kReportStyle;
extern const std::string_view kReportScript;

/// Content-Security-Policy of the page: nothing is loaded, and of what stands in the page only that
/// style and that script count.  It names their SHA-256; tests/e2e/test_report.py compares.
extern const std::string_view kReportPolicy;

}  // namespace pergpu::view
