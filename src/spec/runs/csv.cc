// One pass; fields are re-used from record to record.
#include "spec/runs/csv.h"

namespace pergpu {

std::vector<CsvError> visit_csv(std::string_view text,
                                const std::function<void(const std::vector<CsvField>&)>& visit) {
  std::vector<CsvField> fields;
  std::size_t at = 0;
  while (at < text.size()) {
    std::size_t count = 0;
    bool more = true;
    while (more) {
      if (fields.size() == count) fields.emplace_back();
      CsvField& field = fields[count++];
      field.offset = at;
      field.quoted = at < text.size() && text[at] == '"';
      field.text.clear();
      if (field.quoted) {
        while (true) {
          std::size_t quote = text.find('"', at + 1);
          if (quote == std::string_view::npos) return {{field.offset, "unclosed quoted field"}};
          field.text += text.substr(at + 1, quote - at - 1);
          at = quote + 1;
          if (at >= text.size() || text[at] != '"') break;
          field.text += '"';
        }
        if (at < text.size() && std::string_view(",\r\n").find(text[at]) == std::string_view::npos)
          return {{at, "expected a comma or the end of the line after a closing quote"}};
      } else {
        std::size_t end = std::min(text.find_first_of(",\r\n", at), text.size());
        field.text = text.substr(at, end - at);
        if (std::size_t quote = field.text.find('"'); quote != std::string::npos)
          return {{at + quote, "a field that contains quotes must be quoted: \"a \"\"b\"\" c\""}};
        at = end;
      }
      more = at < text.size() && text[at] == ',';
      if (more) ++at;
    }
    if (text.substr(at, 1) == "\r") ++at;
    if (text.substr(at, 1) == "\n") ++at;
    bool empty = count == 1 && fields[0].text.empty() && !fields[0].quoted;
    if (empty) continue;
    fields.resize(count);
    visit(fields);
  }
  return {};
}

}  // namespace pergpu
