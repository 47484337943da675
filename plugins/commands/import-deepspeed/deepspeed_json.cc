#include "deepspeed_json.h"

#include <capstan/base/json.h>
#include <capstan/base/printable.h>
#include <capstan/base/text.h>

#include <string>
#include <vector>

namespace import_deepspeed {

using namespace capstan;

Json parse_deepspeed(const std::string& file, const std::string& text, Diagnostics& faults) {
  constexpr const char* right_file = "give the file that deepspeed.initialize or the Trainer reads";
  std::vector<std::string> repeated;
  try {
    auto json = Json::parse(text, {.comments = true, .repeated = &repeated});
    for (const auto& key : repeated)
      faults.add(file, cat("the key ", Json(key).dump(), " stands twice in one table"), "remove one of the two");
    return json;
  } catch (const JsonParseError& error) {
    if (error.fault() == JsonParseError::Fault::depth)
      throw Error("a table or a list is inside of too many others", right_file, file);
    throw Error(cat("it is not JSON: ", json_fault(text, error)), right_file, file);
  }
}

}  // namespace import_deepspeed
