#pragma once
#include <capstan/strategy.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "table.h"
#include "table_file.h"

namespace pipeline_parallel {

struct PipelineParallelOptions {
  std::int64_t size = 1;
  std::string schedule = "1f1b";
  std::int64_t chunks = 0;
  std::optional<std::string> table;
  std::vector<std::string> split{"auto"};
  static std::vector<capstan::plugin::Saving> savings();
  static void describe(capstan::config::OptionTable<PipelineParallelOptions>& t);
};

/// Cuts the model into stages, which the ranks along the axis pp compute, each for several micro-batches in flight, in
/// the order of a schedule.
class PipelineParallel : public capstan::strategy::Strategy {
 public:
  explicit PipelineParallel(capstan::config::Options<PipelineParallelOptions> options) : options_(std::move(options)) {}
  void mesh(capstan::layout::MeshSpec& spec) override;
  void claim(capstan::strategy::Claims& claims) const override;
  void check(const capstan::strategy::Facts& facts, capstan::Diagnostics& diagnostics) const override;
  /// Throws Error where the model has fewer units than stages, or `split` names none of it.
  capstan::strategy::Stages stages(const std::vector<std::unique_ptr<capstan::nn::Unit>>& units,
                                   const capstan::layout::Mesh& mesh) override;
  std::vector<std::string> notes() const override;

 private:
  int ranks() const { return static_cast<int>(options_->size); }
  int chunks() const;
  /// The tables of a model whose products have gradients of weights, or none.
  Table table_for(int micros, bool trains_products) const;
  const FileTable& file() const;
  void refuse_too_many(std::size_t units, std::size_t stages) const;
  std::vector<std::size_t> first_units(const std::vector<std::unique_ptr<capstan::nn::Unit>>& units,
                                       std::size_t stages) const;
  std::vector<std::string> options_without_effect() const;
  void check_table(const capstan::strategy::Facts& facts, capstan::Diagnostics& diagnostics) const;
  void check_chunks(capstan::Diagnostics& diagnostics) const;

  capstan::config::Options<PipelineParallelOptions> options_;
  mutable std::optional<FileTable> file_;  // read once
  mutable int micros_ = 0;                 // what check() was told, for notes()
  bool trains_products_ = true;            // of the model that stages() has cut
  std::vector<std::string> stage_notes_;   // of the same
};

}  // namespace pipeline_parallel
