#pragma once
#include <filesystem>
#include <string_view>

#include "table.h"

namespace pipeline_parallel {

/// A table from a file, a line for each position of pp: "0F0,1F0,0B0". Cells are separated by commas, and an empty one
/// is time in which the position waits. PyTorch's files (torch.distributed.pipelining) are such tables: their
/// transfers, gathers and releases follow from the rest here and are skipped, and what they overlap,
/// "(0F1;1B0)OVERLAP_F_B", runs one after the other. Lines that are empty or begin with # are skipped.
struct FileTable {
  Table table;
  int micros = 0;  ///< the micro-batches of a step
};

/// Reads and judges it. Throws Error with the file's line and the cell.
FileTable read_table(const std::filesystem::path& file);
/// The same of the file's text.
FileTable table_of(std::string_view text, const std::filesystem::path& file);

}  // namespace pipeline_parallel
