#include "large_graph/backends.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <utility>

#include <boost/container/vector.hpp>
#include <boost/interprocess/allocators/allocator.hpp>
#include <boost/interprocess/managed_mapped_file.hpp>
#include <boost/unordered_map.hpp>
#include <holdfast/containers.hpp>
#include <holdfast/manager.hpp>

#include "allocators/allocation_run.hpp"
#include "allocators/shared_library.hpp"
#include "large_graph/graph_stream.hpp"
#include "support/environment.hpp"

namespace bench {

namespace {

template <class T, class Allocator>
using rebound = typename std::allocator_traits<Allocator>::template rebind_alloc<T>;
/// Of peers: the same containers as Holdfast's.
template <class Allocator>
using list_of = boost::container::vector<std::uint64_t, rebound<std::uint64_t, Allocator>>;
template <class Allocator>
using map_of =
    boost::unordered_map<std::uint64_t, list_of<Allocator>, std::hash<std::uint64_t>, std::equal_to<std::uint64_t>,
                         rebound<std::pair<const std::uint64_t, list_of<Allocator>>, Allocator>>;

/// `make_room` is called where an insertion found no memory; false: there is none to be had.
template <class Map, class ListAllocator, class MakeRoom>
void insert_edges(const large_graph_workload& workload, large_graph_progress& progress, Map& map,
                  const ListAllocator& lists, MakeRoom make_room) {
    constexpr std::uint64_t looks = 256;  // at the clock, once in so many edges
    graph_stream stream(workload.scale, workload.seed);
    const stopwatch inserting;
    while (progress.edges < workload.edges) {
        const edge one = stream.next();
        for (;;) {
            try {
                map.try_emplace(one.source, lists).first->second.push_back(one.target);
                break;
            } catch (const std::bad_alloc&) {
                if (!make_room()) {
                    throw;
                }
            }
        }
        progress.checksum += mix(mix(one.source) + one.target);
        ++progress.edges;
        if (progress.edges % looks == 0) {
            progress.insert_ms = inserting.milliseconds();
            if (progress.insert_ms > workload.seconds * 1000) {
                return;
            }
        }
    }
    progress.insert_ms = inserting.milliseconds();
}

void run_holdfast(const large_graph_workload& workload, large_graph_progress& progress, holdfast::durability kind) {
    using list = holdfast::vector<std::uint64_t>;
    using map = holdfast::unordered_map<std::uint64_t, list>;
    holdfast::open_options options;
    options.durability = kind;
    options.accept_process_crash_only = kind == holdfast::durability::collect;
    options.commit_on_close = false;
    const std::string path = (workload.directory / "graph.hf").string();
    holdfast::manager heap(holdfast::create_only, path, options);
    map& graph = *heap.construct<map>("graph")(heap.get_allocator<std::byte>());
    insert_edges(workload, progress, graph, heap.get_allocator<std::uint64_t>(), [&] {
        ++progress.commits;
        heap.commit();
        return kind == holdfast::durability::commit;
    });
    const stopwatch writing;
    heap.commit();
    progress.durable_ms = writing.milliseconds();
    progress.charged_bytes = charged_bytes(path);
}

void run_commit(const large_graph_workload& workload, large_graph_progress& progress) {
    run_holdfast(workload, progress, holdfast::durability::commit);
}
void run_collect(const large_graph_workload& workload, large_graph_progress& progress) {
    run_holdfast(workload, progress, holdfast::durability::collect);
}

constexpr auto no_room = [] { return false; };

void run_interprocess(const large_graph_workload& workload, large_graph_progress& progress) {
    namespace ipc = boost::interprocess;
    using allocator = ipc::allocator<std::byte, ipc::managed_mapped_file::segment_manager>;
    const auto path = workload.directory / "interprocess";
    ipc::managed_mapped_file file(ipc::create_only, path.c_str(), workload.file_bytes);
    const allocator bytes(file.get_segment_manager());
    auto& graph = *file.construct<map_of<allocator>>("graph")(bytes);
    insert_edges(workload, progress, graph, rebound<std::uint64_t, allocator>(bytes), no_room);
    const stopwatch writing;
    file.flush();
    sync_file(path);
    progress.durable_ms = writing.milliseconds();
    progress.charged_bytes = charged_bytes(path);
}

/// memkind's PMEM kind: a file without a name, which is gone with the process.
struct memkind_functions {
    int (*create)(const char*, std::size_t, void**);
    void* (*allocate)(void*, std::size_t);
    void (*free)(void*, void*);
};

template <class T>
class memkind_allocator {
public:
    using value_type = T;
    memkind_allocator(const memkind_functions& functions, void* kind) noexcept : functions_(&functions), kind_(kind) {}
    template <class U>
    // NOLINTNEXTLINE(google-explicit-constructor): allocators convert
    memkind_allocator(const memkind_allocator<U>& other) noexcept : functions_(other.functions_), kind_(other.kind_) {}
    [[nodiscard]] T* allocate(std::size_t count) {
        void* const block = functions_->allocate(kind_, count * sizeof(T));
        if (block == nullptr) {
            throw std::bad_alloc();
        }
        return static_cast<T*>(block);
    }
    void deallocate(T* block, std::size_t) noexcept { functions_->free(kind_, block); }
    template <class U>
    bool operator==(const memkind_allocator<U>& other) const noexcept {
        return kind_ == other.kind_;
    }

private:
    template <class>
    friend class memkind_allocator;
    const memkind_functions* functions_;
    void* kind_;
};

void run_memkind(const large_graph_workload& workload, large_graph_progress& progress) {
    const shared_library library("libmemkind.so.0", "libmemkind0");
    const memkind_functions functions{library.find<int(const char*, std::size_t, void**)>("memkind_create_pmem"),
                                      library.find<void*(void*, std::size_t)>("memkind_malloc"),
                                      library.find<void(void*, void*)>("memkind_free")};
    void* kind = nullptr;
    if (functions.create(workload.directory.c_str(), workload.file_bytes, &kind) != 0) {
        throw backend_unavailable("memkind_create_pmem");
    }
    const memkind_allocator<std::byte> bytes(functions, kind);
    // Never destroyed: the file is gone with the process.
    auto& graph = *new map_of<memkind_allocator<std::byte>>(bytes);
    insert_edges(workload, progress, graph, bytes, no_room);
}

constexpr large_graph_backend all_backends[] = {{"holdfast_commit", run_commit},
                                                {"holdfast_collect", run_collect},
                                                {"interprocess", run_interprocess},
                                                {"memkind", run_memkind}};

}  // namespace

std::span<const large_graph_backend> large_graph_backends() { return all_backends; }

}  // namespace bench
