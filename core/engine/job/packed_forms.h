#pragma once
#include <capstan/base/export.h>
#include <capstan/nn/codec.h>
#include <capstan/nn/model.h>
#include <capstan/plugin/host.h>

#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace job {

/// How packed weights of this folder are recognised: by the forms that the run's strategies read, `known`, and where
/// its config.json names another method than theirs, also by those of strategies that are installed, for a fault that
/// says which. Throws Error at the file for a method that none of them reads.
std::vector<nn::PackedForm> forms_of_folder(const std::string& folder, std::vector<nn::PackedForm> known,
                                            plugin::Host& host);

/// The codecs of frozen weights that read and write packed matrices of files, by record.
nn::Codecs codecs_of(const std::vector<nn::WeightPtr>& weights);
/// The forms in which frozen weights of these units can be written.
std::vector<std::string> forms_of_units(const std::vector<nn::Unit*>& units);

}  // namespace job
CAPSTAN_END_NAMESPACE
