#pragma once
#include <capstan/base/export.h>
#include <capstan/plugin/registry.h>

#include <cstdint>

// The ABI tag promises it, and LibTorch is built with it.
#if !defined(_GLIBCXX_USE_CXX11_ABI) || !_GLIBCXX_USE_CXX11_ABI
#error "a Capstan plugin is built with libstdc++ and _GLIBCXX_USE_CXX11_ABI=1"
#endif

/// What a plugin's one exported function returns. Plain data: it is read before anything of the plugin runs.
/// The host compares the ABI note (section .note.capstan, written by capstan_add_plugin) even before that.
extern "C" struct CapstanPluginDescriptor {
  std::uint32_t struct_size;  ///< sizeof(CapstanPluginDescriptor) when the plugin was built
  const char* kind;  ///< "model", "strategy", "optimizer", "objective", "data", "tokenizer", "monitor" or "command"
  const char* name;  ///< unique within its kind; equals the file's stem
  const char* version;
  const char* summary;  ///< one line, shown by `capstan plugins`
  void (*register_types)(capstan::plugin::Registry&);
};

/// Puts a text into the file's notes, which the host reads without opening the file: a command's line for `capstan
/// --help` (type 2), that a plugin has hints (3), the names of the files that a tokenizer opens (4), that a command has
/// a table (5), that each run opens a monitor (6). `text` is a literal without quotes, backslashes and line ends;
/// `type` is a literal too.
#define CAPSTAN_NOTE(type, text)                                                         \
  __asm__(".pushsection .note.capstan, \"a\", %note\n.balign 4\n.long 8, 2f - 1f, " type \
          "\n.asciz \"Capstan\"\n"                                                       \
          ".balign 4\n1: .asciz \"" text "\"\n2: .balign 4\n.popsection\n");

/// Stands next to the CAPSTAN_… line of a plugin that has hints() for people who never named it: when somebody types an
/// unknown name, the program then opens the file and asks. Without it a plugin's hints count only where it is open.
#define CAPSTAN_HINTS CAPSTAN_NOTE("3", "hints")

/// The symbol that the host looks for: extern "C" const CapstanPluginDescriptor* capstan_plugin();
#define CAPSTAN_PLUGIN(kind, name, version, summary, register_types)                          \
  extern "C" [[gnu::visibility("default")]] const CapstanPluginDescriptor* capstan_plugin() { \
    static const CapstanPluginDescriptor descriptor{                                          \
        sizeof(CapstanPluginDescriptor), kind, name, version, summary, register_types};       \
    return &descriptor;                                                                       \
  }
