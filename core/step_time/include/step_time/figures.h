#pragma once
#include <capstan/base/export.h>

#include <optional>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace plan {

/// What a kind of GPU does in a second, as core/step_time/gpus/<name>.json has it, where each number has its source.
struct Figures {
  std::string gpu;
  std::string source;  ///< for people: what was measured, or from what it is derived
  bool is_derived = false;
  double product_flops = 0;                    ///< large 16-bit matrix products, FLOP/s
  double grouped_product_flops = 0;            ///< experts' products, FLOP/s
  double single_product_flops = 0;             ///< products in float32, FLOP/s
  double eight_bit_product_flops = 0;          ///< large products whose operands have 8 bits, FLOP/s
  double eight_bit_grouped_product_flops = 0;  ///< … of experts
  double eight_bit_block_product_flops = 0;    ///< … with a scale for each block
  double product_seconds = 0;                  ///< time that each product takes besides
  double attention_flops = 0;                  ///< for rows of 2,048 columns, FLOP/s
  double attention_backward_flops = 0;
  double attention_growth = 0;  ///< share by which both grow with each doubling of the columns, up to 131,072
  double attention_seconds = 0;
  double bytes_per_second = 0;         ///< rate of its memory, for all other operators
  double decoded_bytes = 0;            ///< bytes that decoding 4 bits writes, bytes/s
  double update_bytes_per_second = 0;  ///< the same for gradients' sums, their norm and the optimizer
  double kernel_seconds = 0;           ///< time that each of these takes besides
  double host_kernel_seconds = 0;      ///< time of the host's thread for each launch, which bounds small models
  double all_gather_bytes = 0;         ///< bus bandwidth among the GPUs of a node, bytes/s
  double reduce_scatter_bytes = 0;
  double all_reduce_bytes = 0;
  double all_to_all_bytes = 0;
  double collective_seconds = 0;  ///< time that each collective takes besides
  double interference = 0;        ///< seconds that computation loses for a second of collectives at the same time
  double host_link_bytes = 0;     ///< between GPU and host memory, bytes/s
  double host_elements = 0;       ///< parameters that a rank's CPUs update in a second, if offloaded
};

/// The texts of core/step_time/gpus/*.json, which the build puts into the library.
const std::vector<const char*>& gpu_files();

/// Nothing where nothing is known of this GPU's speed. Throws Error for a file of figures that is wrong.
std::optional<Figures> figures_of(const std::string& gpu);

}  // namespace plan
CAPSTAN_END_NAMESPACE
