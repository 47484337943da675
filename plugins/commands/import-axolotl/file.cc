#include "file.h"

#include <capstan/base/error.h>
#include <capstan/base/paths.h>
#include <capstan/base/text.h>
#include <capstan/data_parts/subprocess.h>

namespace import_axolotl {

using namespace capstan;

extern const char* const read_script;

namespace {

constexpr const char* other_python =
    "`pip install pyyaml` there, or name a Python 3 that has PyYAML, such as axolotl's own, by --python";

// The keys of fsdp_config may begin with "fsdp_".
int line_of(const File& file, const std::string& path) {
  const std::string fsdp = "fsdp_config.";
  auto found = file.lines.find(path);
  if (found == file.lines.end() && path.starts_with(fsdp))
    found = file.lines.find(fsdp + "fsdp_" + path.substr(fsdp.size()));
  return found == file.lines.end() ? 0 : found->second;
}

EndedProgram run(const std::string& python, const std::string& file) {
  try {
    return run_program(
        {.arguments = {python, "-c", read_script}, .input_file = file, .most_output = std::size_t{1} << 26});
  } catch (const FileError&) {
    throw;
  } catch (const Error& error) {
    throw Error(cat("it is read by Python: ", error.diagnostics().front().what), other_python, file);
  }
}

// What the script says is wrong.
[[noreturn]] void fail(const Json& answer, const std::string& file) {
  const auto what = answer.value("what", "");
  const auto line = answer.value("line", 0);
  throw Error(what, what.find("PyYAML") == std::string::npos ? "give an axolotl configuration" : other_python,
              line > 0 ? cat(file, ":", line) : file);
}

}  // namespace

std::string File::where(const std::string& path) const {
  const auto line = line_of(*this, path);
  return line > 0 ? cat(name, ":", line) : name;
}

std::string File::from(const std::string& path) const {
  const auto line = line_of(*this, path);
  return line > 0 ? cat(path, ", line ", line) : path;
}

File read_yaml(const std::string& python, const std::string& file) {
  const auto program = python_program(python);
  const auto ended = run(program, file);
  const auto answer = try_parse_json(ended.output);
  constexpr int is_said = 3;
  if (ended.status == is_said && answer.is_object()) fail(answer, file);
  if (!ended.succeeded() || !answer.is_object())
    throw Error(cat("it is read by Python, and ", program, " ", ended.text(), ended.last_words()), other_python, file);
  File out{file, answer.at("value"), answer.at("lines").get<std::map<std::string, int>>()};
  if (answer.at("templates").is_string()) out.templates = answer.at("templates").text();
  if (!out.value.is_object()) throw Error("it holds no table of keys", "give an axolotl configuration", file);
  return out;
}

}  // namespace import_axolotl
