#include "checkpoint/commit.h"

#include <capstan/base/log.h>
#include <capstan/base/paths.h>
#include <capstan/base/text.h>
#include <capstan/checkpoint/safetensors.h>
#include <capstan/comm/communicator.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <ctime>

#include "base/xxh64.h"
#include "checkpoint/commit_folder.h"
#include "checkpoint/durable_file.h"
#include "comm/agree.h"
#include "record/manifest.h"

namespace capstan::checkpoint {
namespace {

namespace fs = std::filesystem;

std::string file_name(int rank, int world_size) {
  std::array<char, 64> name{};
  std::snprintf(name.data(), name.size(), "weights-%05d-of-%05d.safetensors", rank, world_size);
  return name.data();
}

std::string utc_now() {
  const auto now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

std::vector<std::string> hashes_of(const at::Tensor& host) {
  const auto* data = static_cast<const std::byte*>(host.const_data_ptr());
  const auto bytes = static_cast<std::int64_t>(host.nbytes());
  std::vector<std::string> out;
  for (std::int64_t at = 0; at < bytes; at += hashed_bytes) {
    out.push_back(xxh64_text(data + at, static_cast<std::size_t>(std::min(hashed_bytes, bytes - at))));
  }
  return out;
}

// Writes this rank's boxes to a file in the folder (none if there is nothing to write) and returns their manifest
// entries. Boxes without elements are left out, their tensors are not.
Contents write_file_of_rank(const fs::path& folder, int rank, int world_size, const std::vector<TensorBox>& boxes) {
  const auto name = file_name(rank, world_size);
  std::vector<NamedTensor> tensors;
  Contents contents;
  for (const auto& saved : boxes) {
    CAPSTAN_ASSERT(saved.box.fits(saved.shape) && saved.data.numel() == saved.box.numel());
    const auto dtype = dtype_of(saved.data.scalar_type());
    auto& tensor = contents.tensors[saved.tensor];
    CAPSTAN_ASSERT(tensor.boxes.empty() || (tensor.dtype == dtype && tensor.shape == saved.shape));
    tensor.shape = saved.shape;
    tensor.dtype = dtype;
    if (saved.box.empty()) continue;
    auto data = saved.data.detach().contiguous().view(saved.box.size);
    tensor.boxes.push_back({saved.box, name, hashes_of(data.cpu())});
    tensors.push_back({key_of(saved.tensor, saved.box), std::move(data)});
  }
  if (tensors.empty()) return contents;
  write_safetensors(folder / name, tensors);
  contents.files[name] = static_cast<std::int64_t>(fs::file_size(folder / name));
  return contents;
}

/// One commit, as one rank does it. Between agreements each rank works by itself; an error of one rank is thrown by all
/// at the next agreement.
class Commit {
 public:
  Commit(const Order& order, comm::Group& group, const std::vector<TensorBox>& boxes)
      : order_(order),
        group_(group),
        boxes_(boxes),
        doing_(cat("saving ", order.target.string())),
        temporary_(temporary_of(order.target, order.attempt)) {}

  Saved run() {
    add_sizes();
    begin();
    const auto pieces = write();
    finish(pieces);
    const std::chrono::duration<double> write_s = std::chrono::steady_clock::now() - begin_;
    if (order_.in_series) retain();
    return {order_.target, order_.meta.step, total_, bytes_of(boxes_), 0, write_s.count()};
  }

 private:
  bool is_first() const { return group_.rank() == 0; }
  void point(CommitPoint point) const {
    if (order_.at_point) order_.at_point(static_cast<int>(point));
  }

  // Does this rank's part, and returns the results of all. However slow its disk is, the others wait.
  template <class Part>
  std::vector<std::string> all(const char* label, const Part& part) {
    const auto work = [&]() -> std::string {
      try {
        return part();
      } catch (const DiskFull& error) {
        throw with_need(error);
      }
    };
    try {
      return comm::agree(group_, doing_, label, work);
    } catch (comm::PeerFailed& error) {  // a rank without a heartbeat
      error.add_context(renamed_ ? doing_ : doing_ + ", which is not saved now; what was committed before is whole");
      throw;
    }
  }

  // A full disk, and how much space the whole checkpoint needs.
  Error with_need(const DiskFull& error) const {
    auto faults = error.diagnostics();
    faults.front().what += cat("; this checkpoint needs ", bytes_text(static_cast<double>(total_)), " in ",
                               fs::absolute(order_.target).parent_path().string());
    if (order_.in_series) {
      faults.front().fix =
          "free space there, keep fewer checkpoints, or write them elsewhere; the ones committed before are whole";
    }
    return Error(std::move(faults));
  }

  void add_sizes() {
    const auto sizes = all("checkpoint sizes", [&] {
      if (order_.failure) std::rethrow_exception(order_.failure);
      return std::to_string(bytes_of(boxes_));
    });
    for (const auto& text : sizes) total_ += std::stoll(text);
  }

  void begin() {
    const auto make = [&] {
      if (is_first()) {
        sweep(order_.target);
        make_empty(temporary_);
        check_space(temporary_, total_);
        point(CommitPoint::begun);
      }
      return temporary_.string();
    };
    // Rank 0's name for the attempt is used.
    temporary_ = cleaned([&] { return all("checkpoint folder", make); }).front();
  }

  std::vector<std::string> write() {
    const auto write = [&] {
      point(CommitPoint::writing);
      if (!is_there(temporary_)) {
        throw Error("rank 0 has made this folder, but it cannot be seen from here",
                    "save to a file system that all hosts share", temporary_.string());
      }
      auto piece = piece_text(write_file_of_rank(temporary_, group_.rank(), group_.size(), boxes_));
      sync_folder(temporary_);
      point(CommitPoint::written);
      return piece;
    };
    return cleaned([&] { return all("checkpoint files", write); });
  }

  void finish(const std::vector<std::string>& pieces) {
    const auto name = [&]() -> std::string {
      if (!is_first()) return {};
      point(CommitPoint::agreed);
      Manifest manifest{order_.meta, merge_pieces(pieces)};
      manifest.meta.version = version();
      manifest.meta.date = utc_now();
      manifest.meta.world_size = group_.size();
      write_durable(temporary_ / "manifest.json", manifest_text(manifest));
      point(CommitPoint::manifest);
      rename_into_place(temporary_, order_.target, order_.at_point);
      point(CommitPoint::committed);
      if (order_.in_series) name_as_latest();
      return {};
    };
    renamed_ = true;  // perhaps: only rank 0 knows
    cleaned([&] { return all("checkpoint commit", name); });
  }

  // Removes what is not kept, which takes its time; the others would wait for it in their next step.
  void retain() {
    all("checkpoint retention", [&]() -> std::string {
      if (is_first()) apply_retention(order_.target, order_.keep, order_.at_point);
      return {};
    });
  }

  // `latest` is a hint: a checkpoint is valid without it.
  void name_as_latest() const {
    const auto file = order_.target.parent_path() / "latest";
    try {
      write_durable(file, order_.target.filename().string() + "\n");
    } catch (const Error& error) {
      log::warning(cat("a checkpoint is saved, but not named as the latest: ", error.what()));
    }
    point(CommitPoint::latest);
  }

  // When ranks have failed, none of them writes any more: the folder can be removed.
  template <class Agreement>
  std::vector<std::string> cleaned(const Agreement& agreement) const {
    try {
      return agreement();
    } catch (...) {
      std::error_code ignored;
      if (is_first()) fs::remove_all(temporary_, ignored);
      throw;
    }
  }

  const Order& order_;
  comm::Group& group_;
  const std::vector<TensorBox>& boxes_;
  const std::string doing_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::int64_t total_ = 0;
  bool renamed_ = false;
  fs::path temporary_;
};

}  // namespace

std::int64_t bytes_of(const std::vector<TensorBox>& boxes) {
  std::int64_t sum = 0;
  for (const auto& box : boxes) sum += static_cast<std::int64_t>(box.data.nbytes());
  return sum;
}

Saved commit(const Order& order, comm::Group& group, const std::vector<TensorBox>& boxes) {
  return Commit(order, group, boxes).run();
}

}  // namespace capstan::checkpoint
