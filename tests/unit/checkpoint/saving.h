#pragma once
#include <ATen/ATen.h>
#include <capstan/comm/communicator.h>
#include <capstan/layout/mesh.h>

#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"

/// What tests of checkpoints save: a few tensors of several dtypes, cut unevenly.
namespace saving {

struct Record {
  capstan::layout::Param param;
  at::Tensor value;
};

/// A record of this shape with values that tell elements apart.
Record record(const std::string& name, const capstan::layout::Shape& shape, c10::ScalarType dtype,
              capstan::layout::Layout layout, double first = 0.5);
/// Cut along dp, ep and tp, in several dimensions and dtypes; one is whole, one a scalar.
std::vector<Record> records(double first = 0.5);
/// The same only along dp, on other dimensions.
std::vector<Record> records_cut_otherwise();

/// What a rank of the mesh saves: the boxes that it counts, as "model/<name>".
std::vector<capstan::checkpoint::TensorBox> boxes_of(const std::vector<Record>& records,
                                                     const capstan::layout::Mesh& mesh, int rank);
at::Tensor slice(at::Tensor whole, const capstan::layout::Box& box);

/// Runs `body` on each of `ranks` ranks with a CPU group of all.
void on_ranks(int ranks, const std::function<void(const std::shared_ptr<capstan::comm::Group>&)>& body);
/// Saves to this folder as the ranks of the mesh.
void save_at(const std::filesystem::path& path, const std::vector<Record>& records, const capstan::layout::Mesh& mesh,
             const capstan::checkpoint::Meta& meta = {});
/// Saves `<folder>/step-…` as one rank; waits for the commit.
void save_step(const capstan::checkpoint::WriterOptions& options, std::int64_t step, double first = 0.5,
               const std::map<std::string, double>& metrics = {});
/// Is every tensor of the checkpoint what records(first) gives?
bool holds(const std::filesystem::path& path, double first);

/// The steps of the committed checkpoints in a folder, the newest first.
std::vector<std::int64_t> steps_in(const std::filesystem::path& folder);
/// Names of all files and folders in a folder, below it too.
std::set<std::string> names_in(const std::filesystem::path& folder);
/// Changes one bit of a file's byte, counted from its end.
void flip_bit(const std::filesystem::path& file, std::size_t from_end = 1);

}  // namespace saving
