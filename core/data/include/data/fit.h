#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>
#include <capstan/data/source.h>

#include <cstdint>
#include <string>

CAPSTAN_BEGIN_NAMESPACE
namespace data {

/// The limits that a model sets for the data.
struct ModelBounds {
  std::int64_t vocab_size = 0;  ///< ids are below it
  std::int64_t positions = 0;   ///< the longest sequence it computes
};

/// Before anything is read: does the tokenizer (null: samples are not made by one) fit the vocabulary, and max_length
/// (0 = the model's) the positions? `where_*` say where the configuration sets the tokenizer and max_length.
void check_fit(const ModelBounds& model, const tokenizer::Tokenizer* tokenizer, std::int64_t max_length,
               const std::string& where_tokenizer, const std::string& where_max_length, Diagnostics& diagnostics);

/// The length that a source is opened with: max_length, or the model's positions if that is 0.
std::int64_t sample_length(const ModelBounds& model, std::int64_t max_length);

/// Throws Error that names the sample when a token id is negative or not below vocab_size, or when it needs more
/// positions (its tokens minus one) than the model has. A device would fail on either without saying where.
void check_sample(const ModelBounds& model, const Sample& sample);

}  // namespace data
CAPSTAN_END_NAMESPACE
