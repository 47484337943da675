#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>
#include <capstan/plugin/descriptor.h>
#include <capstan/plugin/registry.h>

#include <filesystem>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace plugin {

/// Opens a plugin's file, never closes it, and returns what it registers. `kind` is the required kind; empty = any.
/// Where its note says needs=engine, the engine is opened before it.
/// Checked in this order: ABI note, libraries that it needs, one LibTorch in the process, entry symbol, descriptor
/// (size, kind, name = stem), registration of exactly one type. Throws Error that names the file. Thread-safe.
/// If there is a GPU module next to the file, its note is compared too, and with `uses_gpu` it is opened after the
/// plugin: Capstan's own GPU module must be open by then.
Registration load_plugin_file(const std::filesystem::path& file, const std::string& kind, bool uses_gpu = false);

/// What the descriptor of a plugin in the program itself registers, after the checks that load_plugin_file makes of a
/// descriptor and a registration. Those of its kind and name, which are its file's, only with a `kind`. Throws Error
/// that names `file`.
Registration registration_of(const CapstanPluginDescriptor& descriptor, const std::filesystem::path& file,
                             const std::string& kind);

/// libcapstan.so, or the program that holds this code.
std::filesystem::path own_library();

/// The files of LibTorch ("libtorch_cpu", "libc10") that this process has mapped, if a name occurs twice.
std::vector<std::string> doubled_torch_files();

/// Throws Error, which names the plugin that brought it, where LibTorch is in the process: to be called before the
/// engine is opened.
void refuse_torch_before_engine();

/// What the dynamic linker says of a file that it cannot open, in words.
Error open_error(const std::string& file, const std::string& message);

}  // namespace plugin
CAPSTAN_END_NAMESPACE
