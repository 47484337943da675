#include <capstan/base/text.h>

#include <cmath>

#include "parts.h"

namespace import_axolotl {

using namespace capstan;

namespace {

constexpr const char* absent = "axolotl's default";

std::int64_t whole(double number) { return static_cast<std::int64_t>(number); }

void take_micro_batch(Import& import) {
  const auto rows = whole(import.number("micro_batch_size").value_or(1));
  if (!packs(import)) {
    import.set("train.micro_batch", rows, "micro_batch_size");
    return;
  }
  const auto length = whole(import.number("sequence_len").value_or(512));
  import.choose("train.micro_batch", cat(4 * rows),
                cat("samples of a micro-step, packed here too; axolotl's packed rows, ", rows, ", hold ",
                    thousands(rows * length), " tokens: divide that by the mean length that `capstan data` prints"),
                import.has("micro_batch_size") ? "micro_batch_size" : "sample_packing");
}

void take_batches(Import& import) {
  take_micro_batch(import);
  const auto all = import.number("batch_size");
  if (all && !import.has("gradient_accumulation_steps")) {
    import.set("train.accumulation", whole(*all / std::max(1.0, import.number("micro_batch_size").value_or(1))),
               "batch_size");
  }
  import.set_default("train.accumulation", std::int64_t{1}, absent);
}

void take_length(Import& import) {
  const auto steps = import.number("max_steps").value_or(0);
  const auto epochs = import.number("num_epochs").value_or(1);
  if (steps >= 1) {
    import.set("train.max_steps", whole(steps), "max_steps");
    if (import.has("num_epochs")) import.note("num_epochs", "is not taken over: max_steps goes before it in axolotl");
  } else if (epochs >= 1 && std::floor(epochs) == epochs) {
    import.set("train.epochs", whole(epochs), "num_epochs");
  } else {
    import.choose("train.epochs", cat(std::max<std::int64_t>(1, whole(std::ceil(epochs)))),
                  cat("whole epochs, or train.max_steps; axolotl's are ", number_text(epochs)), "num_epochs");
  }
}

// The key that decides, and our precision.
std::pair<std::string, std::string> precision_of(const Import& import) {
  const auto* bf16 = import.find("bf16");
  if (import.is_true("bfloat16")) return {"bfloat16", "bf16_pure"};
  if (bf16 != nullptr && *bf16 != false) return {"bf16", "bf16"};
  if (import.is_true("fp16")) return {"fp16", "fp16"};
  // A key that says null is no default of axolotl's any more.
  const bool says_nothing = bf16 == nullptr && !import.file().lines.contains("bf16");
  return {"bf16", says_nothing ? "bf16" : "fp32"};
}

void take_precision(Import& import) {
  const auto [path, precision] = precision_of(import);
  import.set("train.precision", precision, path);
  if (precision == "bf16" && trains_all(import)) {
    import.note(path,
                "keeps masters in 32 bits here; axolotl's weights have 16 bits only, as with train.precision = "
                "\"bf16_pure\"");
  }
  if (import.is_true("fp8")) {
    import.set("strategy.fp8.recipe", "tensorwise", "fp8");
    if (import.is_true("fp8_enable_fsdp_float8_all_gather"))
      import.set("strategy.fp8.gather", "fp8", "fp8_enable_fsdp_float8_all_gather");
  }
}

}  // namespace

bool packs(const Import& import) { return import.is_true("sample_packing"); }

void take_training(Import& import) {
  take_batches(import);
  take_length(import);
  take_precision(import);
  if (import.is_true("curriculum_sampling")) import.set("train.shuffle", false, "curriculum_sampling");
}

}  // namespace import_axolotl
