#include "job/folder_model.h"

#include <utility>
#include <vector>

#include "hf/door.h"

namespace capstan::job {
namespace {

class FolderModel : public nn::Model {
 public:
  FolderModel(std::shared_ptr<nn::Model> model, std::string folder)
      : model_(std::move(model)), folder_(std::move(folder)) {}
  void check(Diagnostics& diagnostics) const override { model_->check(diagnostics); }
  nn::ModelFacts facts() const override { return model_->facts(); }
  std::vector<std::unique_ptr<nn::Unit>> build() const override { return model_->build(); }
  double flops_per_token(std::int64_t sequence_length) const override {
    return model_->flops_per_token(sequence_length);
  }
  layout::FileMap file_map() const override { return hf::door().map_in(folder_, model_->file_map()); }

 private:
  std::shared_ptr<nn::Model> model_;
  std::string folder_;
};

}  // namespace

std::shared_ptr<nn::Model> in_folder(std::shared_ptr<nn::Model> model, const std::string& folder) {
  return model ? std::make_shared<FolderModel>(std::move(model), folder) : model;
}

}  // namespace capstan::job
