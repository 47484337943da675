#include "data/tokenizers.h"

#include "data/byte_tokenizer.h"

#include <capstan/base/error.h>
#include <capstan/base/text.h>

namespace capstan::data {

std::shared_ptr<const Tokenizer> make_tokenizer(const std::string& name) {
  if (name == "byte") return std::make_shared<const ByteTokenizer>();
  throw Error(cat("there is no tokenizer '", name, "'"), suggestion(name, {"byte"}));
}

}  // namespace capstan::data
