#pragma once
#include <capstan/base/export.h>

#include <cstddef>
#include <stdexcept>
#include <string>

CAPSTAN_BEGIN_NAMESPACE

/// What a Json cannot do: a value of another kind than is asked for, a number that the type does not hold.
class JsonError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  ~JsonError() override;
};

/// An object has no such key: "key 'step' not found".
class JsonKeyError : public JsonError {
 public:
  using JsonError::JsonError;
  ~JsonKeyError() override;
};

/// A text is no JSON. capstan/base/json.h has words for it, with the place.
class JsonParseError : public JsonError {
 public:
  enum class Fault { syntax, number, depth };  ///< depth: a list or an object inside of 100 others

  JsonParseError(Fault fault, std::size_t byte);
  ~JsonParseError() override;
  Fault fault() const { return fault_; }
  /// How many bytes were read when it was seen, from 1; 0 for a number that no double holds, and for a depth.
  std::size_t byte() const { return byte_; }

 private:
  Fault fault_;
  std::size_t byte_;
};

CAPSTAN_END_NAMESPACE
