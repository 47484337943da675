#include "plugin/abi.h"

#include <capstan/base/error.h>
#include <capstan/base/files.h>
#include <capstan/base/paths.h>
#include <capstan/base/text.h>
#include <gelf.h>
#include <libelf.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>
#include <system_error>

namespace capstan::plugin {
namespace {

constexpr std::string_view note_owner = "Capstan";
constexpr GElf_Word tag_note = 1;
constexpr const char* rebuild = "build the plugin with capstan_add_plugin() of this Capstan's SDK";

[[noreturn]] void fail_truncated(const std::filesystem::path& file) {
  throw Error("is cut short: it ends before its own tables say", "copy or build it again", file.string());
}

// An ELF file in memory, opened for reading.
class ElfFile {
 public:
  explicit ElfFile(const std::filesystem::path& path) : path_(path), file_(path) {
    constexpr std::string_view magic = "\177ELF";
    const std::string_view start(reinterpret_cast<const char*>(file_.data()), std::min(file_.size(), magic.size()));
    if (start != magic) throw Error("is no shared library (no ELF file)", rebuild, path.string());
    elf_version(EV_CURRENT);
    // libelf's signature takes a mutable image, and it writes to none that it only reads.
    auto* image = const_cast<char*>(reinterpret_cast<const char*>(file_.data()));
    elf_.reset(elf_memory(image, file_.size()));
    GElf_Ehdr header;
    if (!elf_ || elf_kind(elf_.get()) != ELF_K_ELF || !gelf_getehdr(elf_.get(), &header)) fail_truncated(path);
    const auto sections_end = header.e_shoff + GElf_Off{header.e_shnum} * header.e_shentsize;
    if (sections_end > file_.size() || elf_getphdrnum(elf_.get(), &segments_) != 0) fail_truncated(path);
  }

  GElf_Phdr segment(std::size_t index) const {
    GElf_Phdr header;
    if (!gelf_getphdr(elf_.get(), static_cast<int>(index), &header)) fail_truncated(path_);
    const bool in_file = header.p_filesz <= file_.size() && header.p_offset <= file_.size() - header.p_filesz;
    if (!in_file) fail_truncated(path_);
    return header;
  }

  // The text of Capstan's note of this type; empty if there is none.
  std::string note(GElf_Word wanted) const {
    for (std::size_t i = 0; i < segments_; ++i) {
      const auto header = segment(i);
      if (header.p_type != PT_NOTE) continue;
      if (auto text = note(header, wanted); !text.empty()) return text;
    }
    return {};
  }

 private:
  std::string note(const GElf_Phdr& segment, GElf_Word wanted) const {
    const auto type = segment.p_align == 8 ? ELF_T_NHDR8 : ELF_T_NHDR;
    Elf_Data* data =
        elf_getdata_rawchunk(elf_.get(), static_cast<std::int64_t>(segment.p_offset), segment.p_filesz, type);
    if (!data) fail_truncated(path_);
    const auto* bytes = static_cast<const char*>(data->d_buf);
    std::size_t offset = 0;
    std::size_t name = 0;
    std::size_t text = 0;
    GElf_Nhdr head;
    while ((offset = gelf_getnote(data, offset, &head, &name, &text)) > 0) {
      const std::string owner(bytes + name, std::max<std::size_t>(head.n_namesz, 1) - 1);
      if (owner != note_owner || head.n_type != wanted) continue;
      const std::string_view tag(bytes + text, head.n_descsz);
      return std::string(tag.substr(0, tag.find('\0')));
    }
    return {};
  }

  struct End {
    void operator()(Elf* elf) const { elf_end(elf); }
  };
  std::filesystem::path path_;
  MappedFile file_;
  std::unique_ptr<Elf, End> elf_;
  std::size_t segments_ = 0;
};

using AbiFields = std::vector<std::pair<std::string, std::string>>;

// "a=1 b=2" as fields, in order.
AbiFields abi_fields(std::string_view tag) {
  AbiFields out;
  for (const auto& part : split(tag, ' ')) {
    const auto equals = part.find('=');
    if (part.empty()) continue;
    out.emplace_back(part.substr(0, equals), equals == std::string::npos ? "" : part.substr(equals + 1));
  }
  return out;
}

std::string field(const AbiFields& fields, const std::string& name) {
  for (const auto& [key, value] : fields) {
    if (key == name) return value;
  }
  return "-";
}

// "13.2" as {13, 2}; nothing if it is no such text.
std::optional<std::pair<int, int>> number_and_level(std::string_view sdk) {
  std::pair<int, int> out;
  const auto* end = sdk.data() + sdk.size();
  const auto number = std::from_chars(sdk.data(), end, out.first);
  if (number.ec != std::errc() || number.ptr == end || *number.ptr != '.') return std::nullopt;
  const auto level = std::from_chars(number.ptr + 1, end, out.second);
  if (level.ec != std::errc() || level.ptr != end) return std::nullopt;
  return out;
}

// A plugin of the same SDK whose level is not above the host's finds all that it was compiled for (docs/sdk.md).
bool sdk_fits(std::string_view own, std::string_view other) {
  const auto ours = number_and_level(own);
  const auto theirs = number_and_level(other);
  return ours && theirs && ours->first == theirs->first && theirs->second <= ours->second;
}

}  // namespace

std::string host_abi_tag() { return CAPSTAN_ABI_TAG; }

std::string plugin_abi_tag(std::string_view needs) {
  const auto tag = host_abi_tag();
  return cat("needs=", needs, " ", needs == "host" ? tag.substr(0, tag.find(" torch=")) : tag);
}

std::string abi_difference(std::string_view host, std::string_view plugin) {
  const auto ours = abi_fields(host);
  const auto theirs = abi_fields(plugin);
  std::vector<std::string> names;
  for (const auto& fields : {ours, theirs}) {
    for (const auto& [name, value] : fields) {
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  bool differs = false;
  std::vector<std::vector<std::string>> rows{{"      field", "this Capstan", "plugin"}};
  for (const auto& name : names) {
    const auto own = field(ours, name);
    const auto other = field(theirs, name);
    rows.push_back({"      " + name, own, other});
    if (own == other || (name == "sdk" && sdk_fits(own, other))) continue;
    rows.back().emplace_back("<- differs");
    differs = true;
  }
  if (!differs) return {};
  auto table = table_text(rows);
  table.pop_back();
  return table;
}

std::string read_abi_tag(const std::filesystem::path& file) {
  auto tag = ElfFile(file).note(tag_note);
  if (tag.empty()) throw Error("is no Capstan plugin: it has no ABI note (.note.capstan)", rebuild, file.string());
  return tag;
}

std::string read_note(const std::filesystem::path& file, Note note) {
  return ElfFile(file).note(static_cast<GElf_Word>(note));
}

bool check_abi(const std::filesystem::path& file) {
  const auto tag = read_abi_tag(file);
  const bool needs_host = field(abi_fields(tag), "needs") == "host";
  const auto difference = abi_difference(plugin_abi_tag(needs_host ? "host" : "engine"), tag);
  if (difference.empty()) return !needs_host;
  throw Error("was built for another Capstan and cannot be loaded\n" + difference,
              "rebuild the plugin against this Capstan's SDK, with the compiler and LibTorch named above",
              file.string());
}

void check_engine_abi(const std::filesystem::path& file) {
  const auto difference = abi_difference(cat("revision=" CAPSTAN_REVISION " ", host_abi_tag()), read_abi_tag(file));
  if (difference.empty()) return;
  throw Error("is of another Capstan than libcapstan.so\n" + difference, "build and install both files together",
              file.string());
}

std::filesystem::path gpu_module_of(const std::filesystem::path& library) {
  return library.parent_path() / (library.stem().string() + "_cuda.so");
}

void check_gpu_module_abi(const std::filesystem::path& file, const std::filesystem::path& own) {
  auto tag = read_abi_tag(file);
  const bool has_own = is_there(own);
  if (!has_own) {
    std::vector<std::string> common;
    for (const auto& [name, value] : abi_fields(tag)) {
      if (name != "cuda" && name != "nccl") common.push_back(cat(name, "=", value));
    }
    tag = join(common, " ");
  }
  const auto difference = abi_difference(has_own ? read_abi_tag(own) : host_abi_tag(), tag);
  if (difference.empty()) return;
  throw Error("holds kernels that were built for another Capstan and cannot be loaded\n" + difference,
              "rebuild the plugin against this Capstan's SDK with -DCAPSTAN_CUDA=ON and what is named above",
              file.string());
}

}  // namespace capstan::plugin
