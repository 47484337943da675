#include <capstan/base/counted.h>
#include <capstan/base/error.h>
#include <capstan/base/json.h>
#include <capstan/base/printable.h>
#include <capstan/base/text.h>
#include <capstan/record/safetensors.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <string_view>

#include "record/dtype.h"

namespace capstan::checkpoint {
namespace {

constexpr std::uint64_t max_header = 100'000'000;
const char* const again = "it is damaged: copy or download it again";

// A repository that was cloned without Git LFS holds this instead of its large files.
constexpr std::string_view lfs_pointer = "version https://git-lfs";

struct Header {
  std::map<std::string, TensorInfo> tensors;
  std::map<std::string, std::string> metadata;
  std::size_t data_begin = 0;  // in the file
};

// The header's text. The file starts with its length, a little-endian u64.
std::string header_text(const std::string& where, const std::byte* file, std::size_t size) {
  if (std::string_view(reinterpret_cast<const char*>(file), size).starts_with(lfs_pointer)) {
    throw Error("it is a pointer of Git LFS, not the file itself",
                "run `git lfs pull` in its folder, or download the model with `hf download`", where);
  }
  if (size < 8) {
    throw Error(cat("it has ", size, " bytes, but a safetensors file starts with 8 bytes of header length"), again,
                where);
  }
  std::uint64_t length = 0;
  for (std::size_t i = 8; i-- > 0;) length = length << 8 | std::to_integer<std::uint64_t>(file[i]);
  if (length > max_header) {
    throw Error(cat("its header length is ", length, ", above the format's ", max_header, ": no safetensors file"),
                again, where);
  }
  if (length > size - 8) {
    throw Error(cat("truncated: its header of ", length, " bytes needs ", length + 8, " bytes, the file has ", size),
                again, where);
  }
  std::string text(reinterpret_cast<const char*>(file) + 8, length);
  if (text.empty() || text[0] != '{') {
    throw Error("its header does not start with '{': no safetensors file", again, where);
  }
  return text;
}

TensorInfo parse_tensor(const std::string& where, const std::string& name, const Json& entry) {
  const auto wrong = [&](const std::string& what) { return Error(cat("tensor '", name, "' ", what), again, where); };
  const auto unsigned_list = [&](const char* key) {
    const auto list = entry.find(key);
    const auto is_size = [](const Json& v) {
      return v.is_number_unsigned() && v.get<std::uint64_t>() <= std::numeric_limits<std::int64_t>::max();
    };
    if (list == entry.end() || !list->is_array() || !std::all_of(list->begin(), list->end(), is_size)) {
      throw wrong(cat("has no valid '", key, "' (a list of numbers from 0)"));
    }
    return list->get<std::vector<std::int64_t>>();
  };
  if (!entry.is_object()) throw wrong("is not described by an object");
  const auto dtype = entry.find("dtype");
  if (dtype == entry.end() || !dtype->is_string()) throw wrong("has no 'dtype'");
  const auto scalar = dtype_named(dtype->get<std::string>());
  if (!scalar) throw wrong(cat("has dtype ", dtype->dump(), ", none of ", dtype_names()));
  TensorInfo info{*scalar, unsigned_list("shape"), 0, 0};
  const auto offsets = unsigned_list("data_offsets");
  if (offsets.size() != 2 || offsets[0] > offsets[1]) throw wrong("has no valid 'data_offsets' ([begin, end])");
  info.begin = static_cast<std::uint64_t>(offsets[0]);
  info.end = static_cast<std::uint64_t>(offsets[1]);
  const auto bytes = bytes_of(info.shape, info.dtype);
  if (!bytes) throw wrong(cat("has shape ", layout::shape_text(info.shape), ", too large for any file"));
  if (static_cast<std::uint64_t>(*bytes) != info.end - info.begin) {
    throw wrong(cat("of shape ", layout::shape_text(info.shape), " and dtype ", dtype->get<std::string>(), " needs ",
                    *bytes, " bytes, but its offsets span ", info.end - info.begin));
  }
  return info;
}

// "2 tensors are cut off: a; b": those that end after the file's end.
std::string cut_text(const Header& header, std::uint64_t file_size) {
  constexpr std::size_t shown = 20;
  std::vector<std::string> names;
  for (const auto& [name, info] : header.tensors) {
    if (header.data_begin + info.end > file_size) names.push_back(name);
  }
  const auto all = names.size();
  if (all > shown) names.resize(shown);
  return cat(counted(all, "tensor is", "tensors are"), " cut off: ", join(names, "; "),
             all > shown ? cat("; … and ", all - shown, " more") : "");
}

// Tensors are stored one after the other and fill the data exactly. A file that ends early is a fault, all else throws.
void check_offsets(const std::string& where, const Header& header, std::uint64_t file_size, Diagnostics& faults) {
  using Item = std::pair<const std::string, TensorInfo>;
  std::vector<const Item*> order;
  for (const auto& item : header.tensors) order.push_back(&item);
  std::sort(order.begin(), order.end(), [](const Item* a, const Item* b) {
    return std::pair(a->second.begin, a->second.end) < std::pair(b->second.begin, b->second.end);
  });
  std::uint64_t end = 0;
  for (const Item* item : order) {
    if (item->second.begin != end) {
      throw Error(cat("tensor '", item->first, "' begins at byte ", item->second.begin,
                      " of the data, but the one before it ends at ", end),
                  again, where);
    }
    end = item->second.end;
  }
  const auto expected = header.data_begin + end;
  if (file_size < expected) {
    faults.add(where,
               cat("truncated: its header describes ", expected, " bytes, the file has ", file_size, "; ",
                   cut_text(header, file_size)),
               again);
  }
  if (file_size > expected) {
    throw Error(cat("it has ", file_size, " bytes, ", file_size - expected, " more than its header describes"), again,
                where);
  }
}

// Reads and validates the header of a whole file. Throws Error with `where`; a file that ends before its data does is
// added to `faults` instead, since the header still says what it should hold.
Header parse_header(const std::string& where, const std::byte* file, std::size_t size, Diagnostics& faults) {
  const auto text = header_text(where, file, size);
  Header header;
  header.data_begin = text.size() + 8;
  const auto json = parse_json(text, "its header is no valid JSON: ", again, where);
  if (!json.is_object()) throw Error(cat("its header is ", json.type_name(), ", not an object"), again, where);
  for (const auto& [name, entry] : json.items()) {
    if (name != "__metadata__") {
      header.tensors.emplace(name, parse_tensor(where, name, entry));
      continue;
    }
    if (!entry.is_object()) throw Error("'__metadata__' is no object", again, where);
    for (const auto& [key, value] : entry.items()) {
      if (!value.is_string())
        throw Error(cat("'__metadata__' maps '", key, "' to something else than a text"), again, where);
      header.metadata.emplace(key, value.get<std::string>());
    }
  }
  check_offsets(where, header, size, faults);
  return header;
}

}  // namespace

MappedTensors::MappedTensors(std::filesystem::path path) : path_(std::move(path)), file_(path_) {
  Diagnostics faults;
  parse(faults);
  faults.throw_if_any();
}

MappedTensors::MappedTensors(std::filesystem::path path, Diagnostics& faults) : path_(std::move(path)), file_(path_) {
  parse(faults);
}

void MappedTensors::parse(Diagnostics& faults) {
  auto header = parse_header(path_.string(), file_.data(), file_.size(), faults);
  data_ = file_.data() + header.data_begin;
  tensors_ = std::move(header.tensors);
  metadata_ = std::move(header.metadata);
}

const TensorInfo& MappedTensors::info(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found != tensors_.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& item : tensors_) names.push_back(item.first);
  const auto nearest = nearest_name(name, names);
  throw Error(cat("it has no tensor '", name, "'"), nearest.empty() ? "" : cat("did you mean '", nearest, "'?"),
              path_.string());
}

}  // namespace capstan::checkpoint
