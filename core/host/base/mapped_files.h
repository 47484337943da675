#pragma once
#include <capstan/base/export.h>

#include <cstddef>
#include <filesystem>
#include <optional>

CAPSTAN_BEGIN_NAMESPACE

/// A byte of a file that a MappedFile maps.
struct MappedByte {
  std::filesystem::path file;
  std::size_t offset = 0;
};

/// Which one an address is; nothing where no MappedFile maps it. For the handler of SIGBUS, which the kernel sends to
/// who reads a page that it cannot get: thread-safe, and no reader of a mapped file holds the lock that it takes.
std::optional<MappedByte> mapped_byte_at(const void* address);

CAPSTAN_END_NAMESPACE
