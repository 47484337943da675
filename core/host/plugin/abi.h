#pragma once
#include <capstan/base/export.h>

#include <filesystem>
#include <string>
#include <string_view>

CAPSTAN_BEGIN_NAMESPACE
namespace plugin {

/// This library's own tag: what host and plugin must have in common, since C++ objects pass between them, "sdk=15.0
/// cxx=gcc12 … torch=2.11.0". tools/cmake/CapstanPlugin.cmake makes it, and the note that holds it in each plugin.
std::string host_abi_tag();
/// The tag of a plugin that this library can load: needs=host, which says nothing of LibTorch, or needs=engine.
std::string plugin_abi_tag(std::string_view needs);
/// A table of all fields, with those marked that do not fit; empty when all fit. A field fits if it is equal, and
/// "sdk", a number and a level ("13.2"), also if the numbers are equal and the plugin's level is below the host's.
std::string abi_difference(std::string_view host, std::string_view plugin);

/// The tag in a file's ELF note, read without running anything of it; works on stripped files. Throws Error that
/// names the file when it is no ELF file, is cut short, or has no note.
std::string read_abi_tag(const std::filesystem::path& file);
/// What else a file's notes say (CAPSTAN_NOTE): a command's line for `capstan --help`, that its plugin has hints
/// (CAPSTAN_HINTS), what files a tokenizer opens, that a command has a table in configurations (CAPSTAN_RUN_COMMAND),
/// that runs open the plugin without being told to (CAPSTAN_OPENED_BY_DEFAULT).
enum class Note { command_line = 2, hints = 3, tokenizer_files = 4, table = 5, by_default = 6 };
/// Empty in a file without such a note. Throws as read_abi_tag.
std::string read_note(const std::filesystem::path& file, Note note);
/// Throws Error, field by field, when the file was built for another Capstan than this one. Returns whether the plugin
/// needs the engine.
bool check_abi(const std::filesystem::path& file);
/// The same for libcapstan_engine.so, which must be of the very revision that this libcapstan.so is of.
void check_engine_abi(const std::filesystem::path& file);

/// The file that holds a plugin's kernels: <name>_cuda.so next to <name>.so; for libcapstan.so its own GPU module.
std::filesystem::path gpu_module_of(const std::filesystem::path& library);
/// As check_abi, for a plugin's GPU module. Its CUDA major and NCCL version must be those of `own`, Capstan's GPU
/// module; if that does not exist (a build without CUDA), only the fields that every plugin has are compared.
void check_gpu_module_abi(const std::filesystem::path& file, const std::filesystem::path& own);

}  // namespace plugin
CAPSTAN_END_NAMESPACE
