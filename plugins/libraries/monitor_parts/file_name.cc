#include <capstan/base/printable.h>
#include <capstan/base/text.h>
#include <capstan/monitor/run_files.h>
#include <capstan/monitor_parts/file_name.h>

namespace capstan::monitor {

std::string file_name_fault(std::string_view name) {
  constexpr std::size_t longest = 200;  // with what is added while it is written, below the 255 of a file system
  const auto shown = cat("is \"", printable(name), "\", ");
  if (name.empty()) return "is empty";
  if (name.find('/') != std::string_view::npos) return shown + "which is a path";
  if (name == "." || name == "..") return shown + "which is a folder";
  if (printable(name) != name) return shown + "which is no plain text";
  if (name.size() > longest) return cat("is a name of ", name.size(), " bytes; a file's has at most ", longest);
  if (is_name_of_run(name)) return shown + "which the run gives to a file of its own";
  return {};
}

}  // namespace capstan::monitor
