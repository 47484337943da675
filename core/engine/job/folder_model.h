#pragma once
#include <capstan/base/export.h>
#include <capstan/nn/model.h>

#include <memory>
#include <string>

CAPSTAN_BEGIN_NAMESPACE
namespace job {

/// The model with its records where this folder has them, which may be inside of a model around it.
std::shared_ptr<nn::Model> in_folder(std::shared_ptr<nn::Model> model, const std::string& folder);

}  // namespace job
CAPSTAN_END_NAMESPACE
