#include "options.h"

#include <capstan/base/text.h>

#include <algorithm>

namespace distill {

using namespace capstan;

void DistillOptions::describe(config::OptionTable<DistillOptions>& t) {
  t.add("teacher", &DistillOptions::teacher)
      .required()
      .doc(
          "the folder or hub id of the model to learn from, which has as many words as the model that is trained, and "
          "the same tokens; \"start\": that model as the run began; or \"data\": no model, the data have the likeliest "
          "words of each token");
  t.add("alpha", &DistillOptions::alpha)
      .above(0)
      .max(1)
      .doc("the share of the divergence from the teacher; the rest is that of the labels' cross entropy");
  t.add("temperature", &DistillOptions::temperature)
      .min(0.01)
      .max(1000)
      .doc(
          "logits of both models are divided by it before they are compared, and the divergence counts times its "
          "square, so that gradients stay of one size");
  t.add("top_k", &DistillOptions::top_k)
      .min(0)
      .doc("compare only this number of the teacher's likeliest words at each token; 0: all words");
  t.add("outside", &DistillOptions::outside)
      .choices({"tail", "renormalised"})
      .doc(
          "what becomes of words outside of top_k. tail: they are one word, in both models; renormalised: the "
          "teacher's "
          "probabilities of its top_k words are divided by their sum, and the student is to give the others none");
}

Comparison comparison_of(const config::Options<DistillOptions>& options, Diagnostics& diagnostics) {
  if (options->top_k == 0 && options->outside != DistillOptions().outside) {
    diagnostics.add(options.where(&DistillOptions::outside),
                    cat(options.name(&DistillOptions::outside), " is set, and all words are compared"),
                    "remove it, or set top_k");
  }
  if (options->top_k == 0 && options->teacher == "data") {
    diagnostics.add(options.where(&DistillOptions::teacher),
                    cat(options.name(&DistillOptions::teacher), " is \"data\", which have some words of each token"),
                    cat("set ", options.name(&DistillOptions::top_k), " to their number"));
  }
  using Rest = TeacherWords::Rest;
  // A plan that has the teacher in the data has a word at least, whatever was said of top_k.
  const auto words = options->teacher == "data" ? std::max<std::int64_t>(options->top_k, 1) : options->top_k;
  return {options->temperature, words, options->outside == "tail" ? Rest::tail : Rest::renormalised};
}

}  // namespace distill
