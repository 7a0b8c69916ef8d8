// The library makes a double of such an integer, so its own text is taken instead.
#include "spec/text/exact_json.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "spec/text/number_text.h"

namespace pergpu {
namespace {

using Json = nlohmann::json;

class ExactJsonBuilder : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(std::int64_t value) override { return put(value); }
  bool number_unsigned(std::uint64_t value) override { return put(value); }
  bool number_float(double value, const std::string& written) override {
    return looks_like_json_integer(written) ? put(written) : put(value);
  }
  bool string(std::string& value) override { return put(std::move(value)); }
  bool binary(Json::binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool key(std::string& name) override {
    open_.back().name = std::move(name);
    return true;
  }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t, const std::string&, const Json::exception&) override {
    return false;
  }

  Json take() { return std::move(root_); }

 private:
  struct Frame {
    Json value;
    std::string name = {};
  };

  bool open(Json value) {
    open_.push_back({std::move(value)});
    return true;
  }
  bool close() {
    Json value = std::move(open_.back().value);
    open_.pop_back();
    return put(std::move(value));
  }
  bool put(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (open_.back().value.is_object()) {
      open_.back().value[open_.back().name] = std::move(value);
    } else {
      open_.back().value.push_back(std::move(value));
    }
    return true;
  }

  std::vector<Frame> open_;
  Json root_;
};

}  // namespace

nlohmann::json exact_json(std::string_view text) {
  ExactJsonBuilder builder;
  if (!Json::sax_parse(text.begin(), text.end(), &builder)) return nullptr;
  return builder.take();
}

}  // namespace pergpu
