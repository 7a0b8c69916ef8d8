// CSV cells and words of the command line carry no types.  A word is a number only in one of the
// usual spellings, so that two different words never become one value by accident.
#include "spec/readers/readers.h"
#include "spec/text/number_text.h"

namespace pergpu {
namespace {

Node word(std::string_view text, Place at) {
  Node node;
  node.at = at;
  node.text = text;
  node.is_word = true;
  node.kind = Node::Kind::String;
  return node;
}

void set_truth(Node& node, bool value) {
  node.kind = Node::Kind::Bool;
  node.integer = value ? 1 : 0;
}

}  // namespace

Node typed_text(std::string_view text, Place at) {
  Node node = word(text, at);
  // As JSON, Python (pandas) and spreadsheets write them.
  if (text == "true" || text == "True" || text == "TRUE") set_truth(node, true);
  if (text == "false" || text == "False" || text == "FALSE") set_truth(node, false);
  if (text == "null" || text == "None") node.kind = Node::Kind::Null;
  switch (number_word(text)) {
    case NumberWord::None:
      break;
    case NumberWord::Int:
      node.kind = Node::Kind::Int;
      node.integer = to_integer(text);
      node.number = to_double(text);
      break;
    case NumberWord::Float:
      node.kind = Node::Kind::Float;
      node.number = to_double(text);
      break;
  }
  return node;
}

Node number_or_text(std::string_view text, Place at) {
  Node node = word(text, at);
  if (text == "true" || text == "false") {
    set_truth(node, text == "true");
  } else if (looks_like_json_integer(text)) {
    node.kind = Node::Kind::Int;
    node.integer = to_integer(text);
    node.number = to_double(text);
  } else if (looks_like_json_number(text)) {
    node.kind = Node::Kind::Float;
    node.number = to_double(text);
  }
  return node;
}

}  // namespace pergpu
