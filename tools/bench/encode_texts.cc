// Times a tokenizer on one thread: encode_texts FOLDER TEXTS, where TEXTS is a file with a u32 length before each text.
// Prints seconds to load, seconds to encode them all (the fastest of five passes), and how many ids that gave.
#include <capstan/base/files.h>
#include <capstan/tokenizer/open.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::vector<std::string> read_texts(const char* path) {
  const auto bytes = capstan::read_file(path);
  std::vector<std::string> texts;
  for (std::size_t at = 0; at < bytes.size();) {
    std::uint32_t size = 0;
    std::memcpy(&size, bytes.data() + at, sizeof size);
    texts.push_back(bytes.substr(at + sizeof size, size));
    at += sizeof size + size;
  }
  return texts;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const auto texts = read_texts(argv[2]);
  const auto start = std::chrono::steady_clock::now();
  capstan::plugin::Host host;
  const auto tokenizer = capstan::tokenizer::open_named(argv[1], {}, host).object;
  const auto load = seconds_since(start);
  double best = 1e9;
  std::size_t ids = 0;
  for (int pass = 0; pass < 5; ++pass) {
    ids = 0;
    const auto begin = std::chrono::steady_clock::now();
    for (const auto& text : texts) ids += tokenizer->encode(text).size();
    best = std::min(best, seconds_since(begin));
  }
  std::printf("%.6f %.6f %zu\n", load, best, ids);
}
