#pragma once
#include <capstan/optimizer.h>

#include <memory>
#include <vector>

namespace adam8bit {

/// Records below this many elements keep float32 states, as in bitsandbytes (min_8bit_size).
inline constexpr std::int64_t least_elements = 4096;

struct Adam8bitOptions {
  std::vector<double> betas{0.9, 0.999};
  double eps = 1e-8;
  static void describe(capstan::config::OptionTable<Adam8bitOptions>& t);
};

/// Is this a record whose moments are in 8 bits? Norms and biases, embeddings and what is small are not: these gain
/// little memory, or their rows differ more than a block of one scale can hold.
bool is_in_8_bits(const capstan::layout::Param& record);

/// AdamW whose moments have 8 bits an element and a scale for every 256 (docs/adam8bit.md). It keeps nothing itself.
class Adam8bit : public capstan::optimizer::Rule {
 public:
  explicit Adam8bit(capstan::config::Options<Adam8bitOptions> options);
  std::vector<capstan::optimizer::StateSpec> states(const capstan::layout::Param& record) const override;
  capstan::optimizer::Grain grain() const override { return capstan::optimizer::Grain::record; }
  bool is_fused() const override { return true; }
  void apply(std::vector<capstan::optimizer::Slice>& slices, const capstan::optimizer::Update& update) override;
  std::vector<at::Tensor> unpacked(const capstan::layout::Param& record,
                                   const std::vector<at::Tensor>& state) const override;
  void pack(const capstan::layout::Param& record, const std::vector<at::Tensor>& values,
            const std::vector<at::Tensor>& state) const override;

 private:
  capstan::config::Options<Adam8bitOptions> options_;
  std::unique_ptr<capstan::optimizer::Rule> floats_;  ///< for the records that are not in 8 bits
};

}  // namespace adam8bit
