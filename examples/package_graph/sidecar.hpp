// The sidecar: a text file beside the heap. The ingesting process writes to it, and syncs, what it is about to commit
// and what it has committed. After a crash it says which states the heap may have:
//
//     open 4711 0x7f1200000000          process 4711 has the heap open, mapped there
//     begin 7                           commit 7 is about to start
//     done 7 14000 13321 ... 8a5c...    commit 7 has returned: stanzas packages names edges checksum base
//
// A crash after `done n` leaves commit n; a crash after `begin n` without `done n` leaves commit n - 1 or n. Each line
// ends in a checksum; a last line that is cut short does not count.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "persistent_graph.hpp"

namespace package_graph {

struct testimony {
    std::vector<commit_record> done;
    std::uint64_t begun = 0;         ///< the last commit that was begun, 0 for none
    std::uint64_t opened = 0;        ///< how often the heap was opened for writing
    std::uint64_t base_address = 0;  ///< where the heap was mapped last
    std::uint64_t valid_bytes = 0;   ///< bytes of whole lines; what follows was cut short
};

/// The path of the heap's sidecar: beside the heap, whose directory holds nothing else.
[[nodiscard]] std::string sidecar_path(const std::string& heap);
/// Reads the file; an empty testimony where there is none. Throws std::system_error, and input_error where a line
/// before the last one is damaged.
[[nodiscard]] testimony read_sidecar(const std::string& path);

class sidecar {
public:
    /// Opens or creates the file and removes an unfinished last line. Throws std::system_error.
    sidecar(const std::string& path, const testimony& present);
    sidecar(const sidecar&) = delete;
    sidecar& operator=(const sidecar&) = delete;
    ~sidecar();

    void opened(std::uint64_t base_address);
    void begun(std::uint64_t commit);
    void done(const commit_record& record);

private:
    /// Durable when it returns. Throws std::system_error.
    void append(const std::string& line);

    std::string path_;
    int descriptor_;
};

}  // namespace package_graph
