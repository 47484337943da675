#pragma once
#include <capstan/json/value.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

namespace test {

using Theirs = nlohmann::ordered_json;

/// A value of ours and the same one of nlohmann's.
struct Both {
  capstan::Json ours;
  Theirs theirs;
};

/// Random values of both; texts have control characters, quotes, all of Unicode's lengths and bytes that are no UTF-8.
class RandomJson {
 public:
  explicit RandomJson(unsigned seed) : random_(seed) {}

  Both value(int depth) {
    const auto kind = below(depth > 0 ? 9 : 7);
    if (kind == 0) return {nullptr, nullptr};
    if (kind == 1) return scalar(below(2) == 0);
    if (kind == 2) return scalar(static_cast<std::int64_t>(random_()));
    if (kind == 3) return scalar(static_cast<std::uint64_t>(random_()));
    if (kind == 4) return scalar(static_cast<int>(below(200)) - 100);
    if (kind == 5) return scalar(real());
    if (kind == 6) return scalar(text());
    return kind == 7 ? list(depth) : object(depth);
  }

  std::string text() {
    static const std::string pieces[] = {"a",    "Z ",   "\"",   "\\",       "\n",           "\t\r\b\f",
                                         "\x01", "\x1f", "\x7f", "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80"};
    std::string out;
    for (auto n = below(8); n > 0; --n) {
      if (below(12) == 0) {
        out += static_cast<char>(below(256));
      } else {
        const auto& piece = pieces[below(std::size(pieces))];
        out += below(12) == 0 ? piece.substr(0, piece.size() - 1) : piece;
      }
    }
    return out;
  }

  double real() {
    switch (below(6)) {
      case 0:
        return static_cast<double>(below(1000)) / 8;
      case 1:
        return static_cast<double>(static_cast<std::int64_t>(random_()));
      case 2:
        return static_cast<float>(below(1000)) * 0.001F;
      case 3:
        return below(2) == 0 ? std::numeric_limits<double>::infinity() : std::nan("");
      case 4:
        return std::ldexp(static_cast<double>(below(1000)) - 500, static_cast<int>(below(120)) - 60);
      default:
        break;
    }
    double any = 0;
    const auto bits = random_();
    std::memcpy(&any, &bits, sizeof any);
    return any;
  }

  std::size_t below(std::size_t limit) { return static_cast<std::size_t>(random_() % limit); }

 private:
  template <class T>
  static Both scalar(const T& value) {
    return {value, value};
  }
  Both list(int depth) {
    Both both{capstan::Json::array(), Theirs::array()};
    for (auto n = below(5); n > 0; --n) {
      auto item = value(depth - 1);
      both.ours.push_back(item.ours);
      both.theirs.push_back(item.theirs);
    }
    return both;
  }
  Both object(int depth) {
    Both both{capstan::Json::object(), Theirs::object()};
    const auto count = below(10) == 0 ? below(60) : below(5);  // many: found by hashes
    for (auto n = count; n > 0; --n) {
      const auto key = below(3) == 0 ? std::string(1, static_cast<char>('a' + below(5))) : text();
      auto item = value(depth - 1);
      both.ours[key] = item.ours;
      both.theirs[key] = item.theirs;
    }
    return both;
  }

  std::mt19937_64 random_;
};

}  // namespace test
