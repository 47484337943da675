#include "step_time/figures.h"

#include <capstan/base/error.h>
#include <capstan/base/json.h>
#include <capstan/base/text.h>

#include <array>
#include <utility>
#include <vector>

namespace capstan::plan {
namespace {

struct Rate {
  const char* name;
  double Figures::*value;
};

const std::array<Rate, 24>& rates() {
  static const std::array<Rate, 24> all{{{"product_flops", &Figures::product_flops},
                                         {"grouped_product_flops", &Figures::grouped_product_flops},
                                         {"single_product_flops", &Figures::single_product_flops},
                                         {"eight_bit_product_flops", &Figures::eight_bit_product_flops},
                                         {"eight_bit_grouped_product_flops", &Figures::eight_bit_grouped_product_flops},
                                         {"eight_bit_block_product_flops", &Figures::eight_bit_block_product_flops},
                                         {"product_seconds", &Figures::product_seconds},
                                         {"attention_flops", &Figures::attention_flops},
                                         {"attention_backward_flops", &Figures::attention_backward_flops},
                                         {"attention_growth", &Figures::attention_growth},
                                         {"attention_seconds", &Figures::attention_seconds},
                                         {"bytes_per_second", &Figures::bytes_per_second},
                                         {"decoded_bytes", &Figures::decoded_bytes},
                                         {"update_bytes_per_second", &Figures::update_bytes_per_second},
                                         {"kernel_seconds", &Figures::kernel_seconds},
                                         {"host_kernel_seconds", &Figures::host_kernel_seconds},
                                         {"all_gather_bytes", &Figures::all_gather_bytes},
                                         {"reduce_scatter_bytes", &Figures::reduce_scatter_bytes},
                                         {"all_reduce_bytes", &Figures::all_reduce_bytes},
                                         {"all_to_all_bytes", &Figures::all_to_all_bytes},
                                         {"collective_seconds", &Figures::collective_seconds},
                                         {"interference", &Figures::interference},
                                         {"host_link_bytes", &Figures::host_link_bytes},
                                         {"host_elements", &Figures::host_elements}}};
  return all;
}

const Json* file_of(const std::string& gpu) {
  static const auto files = [] {
    std::vector<Json> parsed;
    for (const auto* text : gpu_files()) parsed.push_back(Json::parse(text));
    return parsed;
  }();
  for (const auto& file : files) {
    if (file.at("gpu") == gpu) return &file;
  }
  return nullptr;
}

}  // namespace

std::optional<Figures> figures_of(const std::string& gpu) {
  const auto* file = file_of(gpu);
  if (!file) return {};
  if (file->contains("derived_from")) {
    auto figures = figures_of(file->at("derived_from").text());
    CAPSTAN_ASSERT(figures.has_value());
    for (const auto& [name, value] : rates()) (*figures).*value *= file->at("times").value(name, 1.0);
    figures->gpu = gpu;
    figures->source = file->at("source").text();
    figures->is_derived = true;
    return figures;
  }
  Figures figures;
  figures.gpu = gpu;
  figures.source = file->at("source").text();
  for (const auto& [name, value] : rates()) figures.*value = file->at("rates").at(name).at("value").get<double>();
  return figures;
}

}  // namespace capstan::plan
