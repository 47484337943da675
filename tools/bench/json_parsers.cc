// Times JSON parsers on a file: json_parsers FILE. Prints for each the seconds to parse the file into values (the
// fastest of seven passes), those to give them back, and the MiB that they hold. Built by hand, with what is installed:
//   g++ -std=c++20 -O2 -I core/include tools/bench/json_parsers.cc core/json/*.cc -o /tmp/json_parsers [-ljansson]
#include <capstan/json/value.h>
#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#if __has_include(<jansson.h>)
#include <jansson.h>
#endif
#if __has_include(<rapidjson/document.h>)
#include <rapidjson/document.h>
#endif

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

double held_mib() {
  const auto held = mallinfo2();
  return static_cast<double>(held.uordblks + held.hblkhd) / (1 << 20);
}

// `parse` returns a pointer that owns the values.
template <class Parse>
void time(const char* name, const Parse& parse) {
  double fastest = 1e9, fastest_end = 1e9, mib = 0;
  for (int pass = 0; pass < 7; ++pass) {
    const auto before = held_mib();
    const auto start = Clock::now();
    auto values = parse();
    fastest = std::min(fastest, seconds_since(start));
    mib = held_mib() - before;
    const auto end = Clock::now();
    values.reset();
    fastest_end = std::min(fastest_end, seconds_since(end));
  }
  std::printf("%-22s parse %8.4f s   free %8.4f s   %8.2f MiB\n", name, fastest, fastest_end, mib);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  std::ifstream in(argv[1], std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  time("capstan::Json", [&] { return std::make_unique<capstan::Json>(capstan::Json::parse(text)); });
  time("nlohmann::json", [&] { return std::make_unique<nlohmann::json>(nlohmann::json::parse(text)); });
#ifdef WITH_ORDERED  // quadratic: minutes on a vocabulary
  time("nlohmann::ordered_json",
       [&] { return std::make_unique<nlohmann::ordered_json>(nlohmann::ordered_json::parse(text)); });
#endif
#if __has_include(<jansson.h>)
  time("jansson", [&] {
    return std::unique_ptr<json_t, void (*)(json_t*)>(json_loadb(text.data(), text.size(), 0, nullptr), json_decref);
  });
#endif
#if __has_include(<rapidjson/document.h>)
  time("rapidjson", [&] {
    auto document = std::make_unique<rapidjson::Document>();
    document->Parse<rapidjson::kParseFullPrecisionFlag | rapidjson::kParseValidateEncodingFlag>(text.data(),
                                                                                                text.size());
    return document;
  });
#endif
  return 0;
}
