#include "options.h"

namespace fp8 {

void Fp8Options::describe(capstan::config::OptionTable<Fp8Options>& t) {
  t.add("recipe", &Fp8Options::recipe)
      .choices({"rowwise", "tensorwise", "blockwise"})
      .doc(
          "what shares a scale: each row of a product's operands, each operand, or 128 neighbours of a row (of weights "
          "128 x 128); experts' products always have one a row. Scales are powers of two and made anew from each "
          "operand");
  t.add("targets", &Fp8Options::targets)
      .doc(
          "layers that multiply in 8 bits, by NeMo's roles (linear_qkv, linear_proj, linear_fc1, linear_fc2, experts), "
          "or \"all-linear\": all of these. Embeddings, routers and the head never do, nor matrices whose sizes are no "
          "multiples of 16, of 128 by block");
  t.add("skip_first", &Fp8Options::skip_first).min(0).doc("so many first blocks stay in train.precision");
  t.add("skip_last", &Fp8Options::skip_last).min(0).doc("so many last blocks stay in train.precision");
  t.add("backward", &Fp8Options::backward)
      .choices({"e4m3", "e5m2", "bf16"})
      .doc(
          "format of the result's gradient in backward's two products (e5m2: more range, fewer digits); bf16: the "
          "weight's gradient is multiplied in train.precision, and that of the input in e4m3. Blocks are e4m3 or bf16");
  t.add("accumulate", &Fp8Options::accumulate)
      .choices({"fast", "precise"})
      .doc(
          "how a GPU adds up products: fast keeps partial sums in fewer digits than float32. Blocks' sums are always "
          "precise, and all on CPU");
  t.add("store", &Fp8Options::store)
      .choices({"bf16", "fp8"})
      .doc(
          "how these layers' frozen weights are kept. fp8: in 8 bits alone, with their scales, rounded while they are "
          "read; backward transposes them for each use. bf16: in train.precision, and in 8 bits and transposed "
          "besides, which is faster");
  t.add("gather", &Fp8Options::gather)
      .choices({"bf16", "fp8"})
      .doc(
          "how ranks that share these layers' trained weights (fsdp, zero) gather them. fp8: in 8 bits, half the "
          "bytes, "
          "and nobody holds them in 16; recipe = \"tensorwise\" then multiplies the same numbers bit for bit. Experts "
          "are gathered in train.precision");
  t.add("reference", &Fp8Options::reference)
      .path()
      .doc(
          "metrics.jsonl of a run with the same data in bf16: this run ends when its mean loss leaves the band above "
          "it; steps that the file lacks are not compared");
  t.add("band", &Fp8Options::band)
      .above(0)
      .max(100)
      .doc("how far above the reference's a loss may be, as a share of it");
  t.add("window", &Fp8Options::window).min(1).doc("of so many steps means are compared");
}

}  // namespace fp8
