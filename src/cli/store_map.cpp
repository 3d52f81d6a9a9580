#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <holdfast/store_in_heap.hpp>
#include <nlohmann/json.hpp>

#include "map_data.hpp"
#include "map_document.hpp"
#include "output.hpp"
#include "store.hpp"
#include "store_tools/tool.hpp"

namespace holdfast_cli {

namespace {

using holdfast_store_tools::environment;
using holdfast_store_tools::expect_success;
using holdfast_store_tools::transaction;

/// By their numbers in lmdb.h; map_page/model.js has the same names.
constexpr std::array<std::string_view, 7> kind_names{"free", "old", "long", "leaf", "meta", "branch", "log"};
constexpr std::uint64_t pages_of_row = 4096;  // of the overview

struct store_space {
    map_encoder data;
    struct share {
        std::uint64_t extents = 0;
        std::uint64_t pages = 0;
        std::uint64_t backed_pages = 0;
    };
    std::array<share, kind_names.size()> shares{};
    std::uint64_t extents = 0;
    std::uint64_t used_bytes = 0;  // of leaves
    std::uint64_t largest_free = 0;

    void add(const hf_lmdb_extent& one) {
        share& kind = shares.at(one.kind);
        ++kind.extents;
        kind.pages += one.pages;
        kind.backed_pages += one.backed_pages;
        ++extents;
        used_bytes += one.used_bytes;
        largest_free = std::max(largest_free, one.kind == HF_LMDB_FREE ? one.pages : 0);
        data.add(one);
    }
    [[nodiscard]] std::uint64_t bytes_of(std::size_t kind) const { return shares.at(kind).pages * map_page_size; }
};

int add_extent(void* to, const hf_lmdb_extent* one) {
    static_cast<store_space*>(to)->add(*one);
    return 0;
}

double share_of(std::uint64_t part, std::uint64_t whole) {
    return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

std::string page_of(MDB_env* env, const std::string& path, const std::string& description) {
    store_space space;
    expect_success("map", hf_lmdb_map(env, add_extent, &space));
    space.data.finish();
    MDB_envinfo information{};
    expect_success("mdb_env_info", mdb_env_info(env, &information));
    mdb_filehandle_t file = -1;
    expect_success("mdb_env_get_fd", mdb_env_get_fd(env, &file));
    struct stat of_file {};
    expect_success("fstat", ::fstat(file, &of_file) == 0 ? 0 : errno);
    constexpr std::uint64_t block = 512;  // of st_blocks
    const std::uint64_t on_disk = static_cast<std::uint64_t>(of_file.st_blocks) * block;
    json header;
    header["kind"] = "store";
    header["path"] = path;
    header["description"] = description;
    header["transaction"] = information.me_last_txnid;
    header["slab_pages"] = 1;
    header["segment_pages"] = pages_of_row;
    header["extents"] = space.extents;
    std::uint64_t pages = 0;
    std::uint64_t backed = 0;
    for (std::size_t i = 0; i < kind_names.size(); ++i) {
        const store_space::share& one = space.shares.at(i);
        pages += one.pages;
        backed += one.backed_pages * map_page_size;
        header["kinds"][std::string(kind_names.at(i))] = {{"extents", one.extents},
                                                          {"bytes", one.pages * map_page_size},
                                                          {"backed", one.backed_pages * map_page_size}};
    }
    const std::uint64_t unused = space.bytes_of(HF_LMDB_FREE) + space.bytes_of(HF_LMDB_OLD);
    header["segments"] = (pages + pages_of_row - 1) / pages_of_row;
    header["backed_exactly"] = on_disk <= backed;
    header["slab_live_bytes"] = space.used_bytes;
    header["fragmentation"] = {{"slabs", 1 - share_of(space.used_bytes, space.bytes_of(HF_LMDB_LEAF))}};
    header["bytes"] = {{"apparent", of_file.st_size},
                       {"on_disk", on_disk},
                       {"user", pages * map_page_size},
                       {"allocated", pages * map_page_size - unused},
                       {"free_extents", space.bytes_of(HF_LMDB_FREE)},
                       {"largest_free_extent", space.largest_free * map_page_size}};
    return map_document(std::move(header), space.data);
}

}  // namespace

std::string store_page(const std::string& path) {
    const environment opened(path, MDB_RDONLY | (is_store_file(path) ? MDB_NOSUBDIR : 0U));
    return page_of(opened.get(), path, "");
}

std::string store_page(const std::string& heap, const std::string& name) {
    holdfast::manager opened(holdfast::open_read_only, heap);
    if (std::ranges::count(holdfast::stores_of(opened), name) == 0) {
        throw std::runtime_error(fmt::format("{}: no store of this heap is called {}", heap, name));
    }
    const holdfast::heap_store store(opened, name);
    return page_of(store.native(), name, fmt::format("a store of the heap {}", opened.path()));
}

}  // namespace holdfast_cli
