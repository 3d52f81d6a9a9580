// Space on disk where files share blocks (FICLONE).
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace bench {

/// Bytes of blocks that the files of these directories have, each block once: by FIEMAP, so what is only reserved for
/// later writes counts where the file system gave it to a file. Throws std::system_error.
[[nodiscard]] std::uint64_t bytes_of_blocks(const std::vector<std::filesystem::path>& directories);

}  // namespace bench
