#pragma once
#include <capstan/base/export.h>
#include <capstan/layout/param.h>

#include <cstdint>

CAPSTAN_BEGIN_NAMESPACE
namespace layout {

/// The number of blocks of `block` consecutive elements; the last one may be short.
std::int64_t blocks_in(std::int64_t elements, std::int64_t block);

/// Does a rank's box of the record divide a block of `block` consecutive elements? The same on all ranks. Where not,
/// blocks are those of the record.
bool divides_blocks(const Param& record, const Layout& layout, const Mesh& mesh, std::int64_t block);

/// The blocks that a box has, as a box of the record's blocks in a row, where no box divides one.
Box block_box(const Param& record, const Box& box, std::int64_t block);

}  // namespace layout
CAPSTAN_END_NAMESPACE
