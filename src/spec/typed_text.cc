// CSV cells and words of the command line carry no types.  Only what JSON would call a number is
// one: 007, .5, +1 and nan stay texts.
#include "spec/number_text.h"
#include "spec/readers.h"

namespace pergpu {

Node typed_text(std::string_view text, Place at) {
  Node node;
  node.at = at;
  node.text = text;
  if (text == "true" || text == "false") {
    node.kind = Node::Kind::Bool;
    node.integer = text == "true" ? 1 : 0;
  } else if (looks_like_json_integer(text)) {
    node.kind = Node::Kind::Int;
    node.integer = to_integer(text);
    node.number = to_double(text);
  } else if (looks_like_json_number(text)) {
    node.kind = Node::Kind::Float;
    node.number = to_double(text);
  } else {
    node.kind = Node::Kind::String;
  }
  return node;
}

}  // namespace pergpu
