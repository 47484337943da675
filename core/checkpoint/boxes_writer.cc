#include <capstan/base/text.h>
#include <capstan/checkpoint/boxes.h>

#include <array>
#include <cstdio>

#include "checkpoint/durable_file.h"
#include "checkpoint/manifest.h"
#include "checkpoint/xxh64.h"

namespace capstan::checkpoint {
namespace {

namespace fs = std::filesystem;

fs::path beside(const fs::path& folder, const char* ending) {
  auto name = folder.has_filename() ? folder : folder.parent_path();  // "weights/" and "weights" are one folder
  name += ending;
  return name;
}

std::string file_name(int rank, int world_size) {
  std::array<char, 64> name{};
  std::snprintf(name.data(), name.size(), "weights-%05d-of-%05d.safetensors", rank, world_size);
  return name.data();
}

}  // namespace

void begin_boxes(const fs::path& folder) {
  const auto temporary = beside(folder, ".tmp");
  try {
    fs::remove_all(temporary);
    fs::create_directories(temporary);
  } catch (const fs::filesystem_error& error) {
    throw Error(cat("cannot make the folder for weights: ", error.code().message()), {}, temporary.string());
  }
}

std::string save_boxes(const fs::path& folder, int rank, int world_size, const std::vector<SavedBox>& boxes) {
  const auto name = file_name(rank, world_size);
  std::vector<NamedTensor> tensors;
  Records records;
  for (const auto& saved : boxes) {
    CAPSTAN_ASSERT(saved.box.fits(saved.param->shape) && saved.data.numel() == saved.box.numel());
    if (saved.box.empty()) continue;
    auto host = saved.data.detach().cpu().contiguous().view(saved.box.size);
    auto key = saved.param->name + saved.box.text();
    auto& record = records[saved.param->name];
    CAPSTAN_ASSERT(record.boxes.empty() || record.dtype == host.scalar_type());
    record.shape = saved.param->shape;
    record.dtype = host.scalar_type();
    const auto* bytes = static_cast<const std::byte*>(host.const_data_ptr());
    record.boxes.push_back({saved.box, name, key, xxh64_text(bytes, host.nbytes())});
    tensors.push_back({std::move(key), std::move(host)});
  }
  if (!tensors.empty()) write_safetensors(beside(folder, ".tmp") / name, tensors);
  return piece_text(records);
}

void finish_boxes(const fs::path& folder, const std::vector<std::string>& pieces, const BoxesInfo& info) {
  const auto text = manifest_text(merge_pieces(pieces), info, static_cast<int>(pieces.size()));
  const auto temporary = beside(folder, ".tmp");
  const auto target = beside(folder, "");
  const auto replaced = beside(folder, ".old");
  DurableFile manifest(temporary / "manifest.json");
  manifest.write(text.data(), text.size());
  manifest.finish();
  sync_folder(temporary);
  try {
    // A folder cannot be renamed onto one that holds files: the old one steps aside first.
    fs::remove_all(replaced);
    if (fs::exists(target)) fs::rename(target, replaced);
    fs::rename(temporary, target);
    sync_folder(fs::absolute(target).parent_path());
    fs::remove_all(replaced);
  } catch (const fs::filesystem_error& error) {
    throw Error(cat("cannot move the finished weights here from ", temporary.string(), ": ", error.code().message()),
                {}, target.string());
  }
}

}  // namespace capstan::checkpoint
