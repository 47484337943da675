#pragma once
#include <capstan/base/export.h>

#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace foreign {

/// What people type in another program, and what it is here.
struct Key {
  std::string program;  ///< "TrainingArguments"; one of programs()
  std::string key;      ///< "per_device_train_batch_size", "trainer.max_steps", "BATCH_SIZE"
  std::string ours;     ///< "train.micro_batch"; empty where none is needed
  std::string why;      ///< a note about it, or why none is needed; may be empty if there is one
};

/// The programs whose keys are known, in the order of docs/from-the-workshop.md.
const std::vector<std::string>& programs();
/// Every key that is known.
const std::vector<Key>& keys();

/// The key that somebody meant who typed this name, dotted or not ("train.gradient_accumulation_steps", "BATCH_SIZE",
/// "trainer.max_steps"); a table before it may be ours. Null when no program has it, or it could be several things.
const Key* find(const std::string& typed);

/// Does a table of this name belong to another program ("trainer", "zero_optimization")? Its program, or "".
std::string program_of_table(const std::string& name);

/// For a diagnostic's fix: "did you mean 'train.micro_batch'? (TrainingArguments' per_device_train_batch_size)".
std::string hint(const Key& key);

/// A program's keys as the Markdown table of docs/from-the-workshop.md.
std::string markdown(const std::string& program);

}  // namespace foreign
CAPSTAN_END_NAMESPACE
