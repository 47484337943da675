#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>
#include <capstan/checkpoint/safetensors.h>
#include <capstan/layout/source.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace checkpoint {

/// A folder of weights as boxes: each rank's boxes in one safetensors file, and manifest.json, which says of
/// every record its shape, its dtype and where each of its boxes lies. No rank ever holds more than its own.
///
/// Writing is three calls, with a collective of the caller's between them; the folder appears at its name only
/// with the last:
///
///     if (rank == 0) begin_boxes(folder);              // then a barrier
///     auto piece = save_boxes(folder, rank, size, boxes);   // then pieces = exchange(piece)
///     if (rank == 0) finish_boxes(folder, pieces, {step});  // then a barrier

/// One box that a rank saves. Of the ranks that share a box only the counting one (Layout::counts) saves it.
struct SavedBox {
  const layout::Param* param = nullptr;
  layout::Box box;
  at::Tensor data;  ///< the box's elements in row-major order, any shape, any device
};

/// What the manifest says of the whole.
struct BoxesInfo {
  std::int64_t step = 0;  ///< optimizer steps done
};

/// Makes the empty folder `<folder>.tmp` in which ranks write; what an earlier attempt left there is removed.
void begin_boxes(const std::filesystem::path& folder);
/// Writes this rank's boxes to weights-RRRRR-of-WWWWW.safetensors (ranks from 0; no boxes, no file) and returns
/// what finish_boxes needs to know of them.
std::string save_boxes(const std::filesystem::path& folder, int rank, int world_size,
                       const std::vector<SavedBox>& boxes);
/// Checks that every record's boxes hold each element exactly once, writes the manifest of all ranks' pieces and
/// moves the folder to its name; one that stands there is replaced.
void finish_boxes(const std::filesystem::path& folder, const std::vector<std::string>& pieces, const BoxesInfo& info);

/// Parameters from such a folder, whatever layout saved it and whatever layout asks. Each box's hash is checked
/// when it is first read.
class BoxesSource : public layout::Source {
 public:
  /// Reads the manifest. Throws Error naming the folder or manifest.json.
  explicit BoxesSource(std::filesystem::path folder);
  ~BoxesSource() override;

  const BoxesInfo& info() const;
  /// Adds a fault for every file that is missing, and one for every record that is missing or has another shape.
  void check(const std::vector<const layout::Param*>& params, Diagnostics& diagnostics) const;

  bool has(const layout::Param& param) const override;
  void fill(const layout::Param& param, const layout::Box& box, const at::Tensor& out) override;

 private:
  struct Manifest;
  const SafetensorsFile& file(const std::string& name);
  // The file that holds the box under this key, after its shape and hash are found right.
  const SafetensorsFile& verified(const std::string& record, std::size_t index);

  std::filesystem::path folder_;
  std::unique_ptr<const Manifest> manifest_;
  std::map<std::string, std::unique_ptr<SafetensorsFile>> files_;
  std::set<std::string> verified_;  // keys of boxes
};

}  // namespace checkpoint
CAPSTAN_END_NAMESPACE
