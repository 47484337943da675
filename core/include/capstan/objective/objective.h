#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>
#include <capstan/data/host_batch.h>
#include <capstan/data/source.h>
#include <capstan/nn/batch.h>

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace objective {

/// One of the forwards that every micro-batch goes through. One pass of an objective has the gradient; the others come
/// before it, have no dropout, and change nothing: they keep no activations, no load of experts, no figure.
struct PassSpec {
  std::string name;                                  ///< for messages: "policy"
  nn::HeadOutput output = nn::HeadOutput::loss_sum;  ///< loss_sum or log_probabilities
  bool gradient = true;
  bool adapters = true;  ///< false: what strategies add to the layers does not act, which is the base model
};

/// A part of what is minimised: weight times its sum over all samples of a step, divided by one of the counts.
struct TermSpec {
  double weight = 1;
  std::size_t count = 0;  ///< index into Plan::counts
};

/// A number for metrics.jsonl, in training and evaluation: a sum over all samples, divided by one of the counts.
struct FigureSpec {
  std::string name;       ///< name of a column, say "accuracy"
  std::size_t count = 0;  ///< index into Plan::counts
};

/// What an objective needs and gives, the same in all of a run.
struct Plan {
  std::vector<PassSpec> passes;
  std::vector<std::string> counts;  ///< for messages: "target tokens", "pairs"
  /// The first one's count is what the loss is a mean over.
  std::vector<TermSpec> terms;
  std::vector<FigureSpec> figures;
  std::int64_t sequences = 0;           ///< that a sample must have; 0: any number
  std::vector<data::FieldSpec> fields;  ///< that the data must declare
};

/// Sums over one micro-batch's samples, each 0-dim, by Plan::terms and Plan::figures. Only terms have a gradient.
struct Sums {
  std::vector<at::Tensor> terms;
  std::vector<at::Tensor> figures;
};

/// What training minimises: what a plugin of the kind `objective` implements. The gradient of a step is that of the sum
/// over terms of weight · sum / count, where sums and counts are over all samples of the step, however it is divided
/// into micro-batches, rows and ranks.
class Objective {
 public:
  virtual ~Objective();
  /// Faults of the options that only show together are added; nothing is thrown.
  virtual void check(Diagnostics& /*diagnostics*/) const {}
  virtual Plan plan() const = 0;
  /// What the micro-batch adds to each of Plan::counts: known before its first forward. Called on the training thread.
  virtual std::vector<double> counts(const data::HostBatch& batch) const = 0;
  /// Its sums, from what each pass gives (Plan::passes). `batch` is that of the pass with the gradient. Empty places of
  /// samples (nn::Batch::has_sample) must add nothing. No number may be waited for: `check` calls it with tensors that
  /// have no memory.
  virtual Sums sums(const std::vector<at::Tensor>& outputs, const nn::Batch& batch) const = 0;
};

}  // namespace objective
CAPSTAN_END_NAMESPACE
