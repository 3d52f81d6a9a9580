// What the examples of Metall's documentation do, with the results that it promises. The programs are written anew; of
// the port there is nothing but the include and the alias.
#include <cstdint>
#include <functional>
#include <memory>
#include <scoped_allocator>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <boost/container/map.hpp>
#include <boost/container/scoped_allocator.hpp>
#include <boost/container/string.hpp>
#include <boost/container/vector.hpp>
#include <boost/unordered_map.hpp>
#include <holdfast/compat/metall.hpp>

#include "ports/port.hpp"

namespace metall = holdfast::compat::metall;
namespace mc = metall::container;

namespace {

using port::require;

template <class T>
using allocator = metall::manager::allocator_type<T>;

void simple(const std::string& store) {
    using vector_type = boost::container::vector<int, allocator<int>>;
    {
        metall::manager manager(metall::create_only, store);
        auto* numbers = manager.construct<vector_type>("vec")(manager.get_allocator<int>());
        numbers->push_back(5);
    }
    {
        metall::manager manager(metall::open_only, store);
        vector_type* numbers = nullptr;
        std::size_t length = 0;
        std::tie(numbers, length) = manager.find<vector_type>("vec");
        require(length == 1 && numbers->size() == 1 && (*numbers)[0] == 5, "the vector of the first session");
        numbers->push_back(10);
    }
    metall::manager manager(metall::open_read_only, store);
    require(manager.find<vector_type>("vec").first->back() == 10, "the vector, read-only");
    require(!manager.destroy<vector_type>("vec"), "nothing is destroyed in a store that is open read-only");
}

void string(const std::string& store) {
    using persistent_string = boost::container::basic_string<char, std::char_traits<char>, allocator<char>>;
    {
        metall::manager manager(metall::create_only, store);
        auto* text = manager.construct<persistent_string>("mystring")("Hello, World!", manager.get_allocator<>());
        require(*text == "Hello, World!", "the string");
    }
    metall::manager manager(metall::open_only, store);
    auto* text = manager.find<persistent_string>("mystring").first;
    require(*text == "Hello, World!", "the string of the first session");
    require(manager.destroy<persistent_string>("mystring") && !manager.destroy<persistent_string>("mystring"),
            "destroy");
}

void maps_of_strings(const std::string& store) {
    using persistent_string = boost::container::basic_string<char, std::char_traits<char>, allocator<char>>;
    using by_name = boost::container::map<persistent_string, int, std::less<persistent_string>,
                                          allocator<std::pair<const persistent_string, int>>>;
    using by_number = boost::container::map<
        int, persistent_string, std::less<int>,
        boost::container::scoped_allocator_adaptor<allocator<std::pair<const int, persistent_string>>>>;
    {
        metall::manager manager(metall::create_only, store);
        auto* names = manager.construct<by_name>("names")(manager.get_allocator<>());
        names->insert({persistent_string("zero", manager.get_allocator<>()), 0});
        (*names)[persistent_string("one", manager.get_allocator<>())] = 1;
        auto* numbers = manager.construct<by_number>("numbers")(manager.get_allocator<>());
        (*numbers)[1] = persistent_string("one", manager.get_allocator<>());
        (*numbers)[2].push_back('2');  // made with the allocator of the map
    }
    metall::manager manager(metall::open_only, store);
    auto* names = manager.find<by_name>("names").first;
    require(names->at(persistent_string("one", manager.get_allocator<>())) == 1, "the number of a name");
    auto* numbers = manager.find<by_number>("numbers").first;
    require(numbers->at(1) == "one" && numbers->at(2) == "2", "the names of numbers");
}

void containers_of_containers(const std::string& store) {
    using chars = boost::container::vector<char, allocator<char>>;
    using inner = boost::unordered_multimap<std::uint64_t, chars, std::hash<std::uint64_t>, std::equal_to<>,
                                            allocator<std::pair<const std::uint64_t, chars>>>;
    using outer =
        boost::unordered_map<unsigned, inner, std::hash<unsigned>, std::equal_to<>,
                             boost::container::scoped_allocator_adaptor<allocator<std::pair<const unsigned, inner>>>>;
    using rows = mc::vector<mc::vector<int>, metall::manager::scoped_allocator_type<mc::vector<int>>>;
    {
        metall::manager manager(metall::create_only, store);
        auto* map = manager.construct<outer>("map")(manager.get_allocator<>());
        {
            chars letters(manager.get_allocator());
            letters.push_back('a');
            (*map)[30].emplace(20, letters);
        }
        auto* matrix = manager.construct<rows>("rows")(manager.get_allocator());
        matrix->resize(5);
        (*matrix)[2].push_back(10);
        require(manager.snapshot(store + ".snapshot"), "snapshot");
    }
    metall::manager manager(metall::open_only, store + ".snapshot");
    auto* map = manager.find<outer>("map").first;
    require(map->at(30).find(20)->second[0] == 'a', "three levels");
    auto* matrix = manager.find<rows>("rows").first;
    require(matrix->size() == 5 && (*matrix)[2][0] == 10, "a vector of vectors");
    require(manager.destroy<outer>("map") && manager.destroy<rows>("rows") && manager.all_memory_deallocated(),
            "the inner containers lie in the store and go with it");
}

void snapshots(const std::string& store) {
    const std::string before = store + ".ver0";
    {
        metall::manager manager(metall::create_only, store);
        int* number = manager.construct<int>(metall::unique_instance)(0);
        require(manager.snapshot(before), "the first snapshot");
        *number = 1;
        require(manager.snapshot(before), "a snapshot over a snapshot");
        // Was: made inside of the snapshot that it was to replace, and refused.
        require(manager.snapshot(before + "/"), "a snapshot over a snapshot whose path ends with a slash");
        *number = 2;
        require(!metall::manager::consistent(store), "a store that is open for writing is not consistent");
    }
    require(metall::manager::consistent(store) && metall::manager::consistent(before), "consistent");
    require(metall::manager::get_uuid(store) != metall::manager::get_uuid(before), "a snapshot has its own uuid");
    const metall::manager old(metall::open_read_only, before);
    const metall::manager now(metall::open_read_only, store);
    require(*old.find<int>(metall::unique_instance).first == 1, "the snapshot");
    require(*now.find<int>(metall::unique_instance).first == 2, "the store");
    require(!metall::manager::consistent(store + ".none"), "what is not there is not consistent");
}

void offset_pointers(const std::string& store) {
    using int_pointer = metall::offset_ptr<int>;
    {
        metall::manager manager(metall::create_only, store);
        auto* array = static_cast<int*>(manager.allocate(10 * sizeof(int)));
        array[9] = 3;
        require(manager.construct<int_pointer>("ptr")(array) != nullptr, "an offset pointer");
    }
    metall::manager manager(metall::open_only, store);
    auto* pointer = manager.find<int_pointer>("ptr").first;
    require(metall::to_raw_pointer(*pointer)[9] == 3, "the array of the first session");
    manager.deallocate(metall::to_raw_pointer(*pointer));
    *pointer = nullptr;
    require(manager.destroy<int_pointer>("ptr") && manager.all_memory_deallocated(), "everything is free");
}

/// A graph as two arrays that the structure itself allocates (compressed sparse rows).
template <class Allocator>
class sparse_rows {
    using index_allocator = typename std::allocator_traits<Allocator>::template rebind_alloc<std::uint64_t>;
    using index_pointer = typename std::allocator_traits<index_allocator>::pointer;

public:
    sparse_rows(std::size_t vertices, std::size_t edges, const Allocator& from)
        : vertices_(vertices), edges_(edges), allocator_(from) {
        indices_ = allocator_.allocate(vertices + 1);
        targets_ = allocator_.allocate(edges);
    }
    sparse_rows(const sparse_rows&) = delete;
    sparse_rows& operator=(const sparse_rows&) = delete;
    ~sparse_rows() {
        allocator_.deallocate(indices_, vertices_ + 1);
        allocator_.deallocate(targets_, edges_);
    }
    [[nodiscard]] std::uint64_t* indices() { return metall::to_raw_pointer(indices_); }
    [[nodiscard]] std::uint64_t* targets() { return metall::to_raw_pointer(targets_); }

private:
    std::size_t vertices_;
    std::size_t edges_;
    index_allocator allocator_;
    index_pointer indices_;
    index_pointer targets_;
};

void graphs(const std::string& store) {
    using adjacency_list = mc::unordered_map<
        std::uint64_t, mc::vector<std::uint64_t>, std::hash<std::uint64_t>, std::equal_to<>,
        metall::manager::scoped_allocator_type<std::pair<const std::uint64_t, mc::vector<std::uint64_t>>>>;
    using rows = sparse_rows<allocator<std::byte>>;
    {
        metall::manager manager(metall::create_only, store);
        auto* graph = manager.construct<adjacency_list>(metall::unique_instance)(manager.get_allocator());
        (*graph)[1].push_back(2);
        (*graph)[1].push_back(3);
        auto* sparse = manager.construct<rows>("rows")(3, 2, manager.get_allocator<>());
        const std::vector<std::uint64_t> offsets{0, 2, 2, 2};
        std::copy(offsets.begin(), offsets.end(), sparse->indices());
        sparse->targets()[0] = 2;
        sparse->targets()[1] = 3;
    }
    metall::manager manager(metall::open_only, store);
    auto* graph = manager.find<adjacency_list>(metall::unique_instance).first;
    require(graph->at(1).size() == 2 && graph->at(1)[1] == 3, "the adjacency list");
    auto* sparse = manager.find<rows>("rows").first;
    require(sparse->targets()[sparse->indices()[0] + 1] == 3, "the sparse rows");
    require(manager.destroy<rows>("rows"), "destroy the rows");
}

void concurrent_maps(const std::string& store) {
    using map_type =
        mc::concurrent_map<char, int, std::less<char>, std::hash<char>, allocator<std::pair<const char, int>>>;
    {
        metall::manager manager(metall::create_only, store);
        auto* map = manager.construct<map_type>("map")(manager.get_allocator<>());
        std::vector<std::thread> threads;
        for (int i = 0; i < 4; ++i) {
            threads.emplace_back([map, i] {
                for (int turn = 0; turn < 100; ++turn) {
                    map->edit('a', [](int& value) { ++value; });
                    map->scoped_edit(static_cast<char>('b' + i)).first += 2;
                }
            });
        }
        for (std::thread& thread : threads) {
            thread.join();
        }
        require(map->insert({'z', 1}) && !map->insert({'z', 2}), "insert, and insert again");
    }
    metall::manager manager(metall::open_only, store);
    auto* map = manager.find<map_type>("map").first;
    int sum = 0;
    for (auto position = map->cbegin(); position != map->cend(); ++position) {
        sum += position->second;
    }
    require(map->size() == 6 && map->count('b') == 1 && map->count('y') == 0, "size");
    require(sum == 400 + 4 * 200 + 1 && map->find('a')->second == 400 && map->find('y') == map->cend(), "values");

    int counts[2] = {};
    std::thread other([&counts] {
        const auto guard = metall::utility::mutex::mutex_lock<2>(1);
        ++counts[1];
    });
    {
        const auto guard = metall::utility::mutex::mutex_lock<2>(1);
        ++counts[1];
    }
    other.join();
    require(counts[1] == 2, "static mutexes");
}

void descriptions_and_attributes(const std::string& store) {
    std::string text;
    {
        metall::manager manager(metall::create_only, store);
        require(!manager.get_description(&text) && text.empty(), "there is no description yet");
        require(manager.set_description("first") && manager.get_description(&text) && text == "first", "description");
        int* object = manager.construct<int>("obj")[3](7);
        require(std::string_view(manager.get_instance_name(object)) == "obj", "name");
        require(manager.get_instance_length(object) == 3 && object[2] == 7, "length");
        require(manager.get_instance_kind(object) == metall::manager::instance_kind::named, "kind");
        require(manager.is_instance_type<int>(object) && !manager.is_instance_type<long>(object), "type");
        require(manager.set_instance_description(object, "example 1"), "set the description of an object");
        require(manager.get_instance_description(object, &text) && text == "example 1", "description of an object");
        manager.construct<int>(metall::unique_instance)();
        int* nameless = manager.construct<int>(metall::anonymous_instance)();
        require(manager.get_instance_name(nameless) == nullptr, "no name");
        require(manager.get_num_named_objects() == 1 && manager.get_num_unique_objects() == 1, "how many");
    }
    require(metall::manager::set_description(store, "second"), "describe a closed store");
    require(metall::manager::get_description(store, &text) && text == "second", "description of a closed store");

    auto named = metall::manager::access_named_object_attribute(store);
    require(named.good() && named.num_objects() == 1 && named.count("obj") == 1, "named objects");
    const auto found = named.find("obj");
    require(found->is_type<int>() && found->length() == 3 && found->description() == "example 1", "attributes");
    require(named.set_description(found, "example 2") && found->description() == "example 2", "set by an accessor");
    require(!named.set_description("none", "x") && named.find("none") == named.end(), "an object that is not there");
    auto unique = metall::manager::access_unique_object_attribute(store);
    require(unique.count<int>(metall::unique_instance) == 1 && unique.count(typeid(int).name()) == 1, "unique objects");
    require(metall::manager::access_anonymous_object_attribute(store).num_objects() == 1, "anonymous objects");
    const metall::manager manager(metall::open_read_only, store);
    require(manager.named_begin()->description() == "example 2", "the description is durable");
}

/// A type that takes an allocator, as the standard's containers want it.
template <class Allocator>
struct key_value {
    using allocator_type = Allocator;
    using key_type = mc::basic_string<char, std::char_traits<char>,
                                      typename std::allocator_traits<Allocator>::template rebind_alloc<char>>;

    explicit key_value(const allocator_type& from) : key(from) {}
    key_value(const key_value&) = default;
    key_value(key_value&&) = default;
    key_value(const key_value& other, const allocator_type& from) : key(other.key, from), value(other.value) {}
    key_value(key_value&& other, const allocator_type& from) : key(std::move(other.key), from), value(other.value) {}
    key_value& operator=(const key_value&) = default;
    key_value& operator=(key_value&&) = default;
    ~key_value() = default;

    key_type key;
    int value = 0;
};

void allocator_aware_types(const std::string& store) {
    using entry = key_value<allocator<char>>;
    using entries = mc::vector<entry, std::scoped_allocator_adaptor<allocator<entry>>>;
    {
        metall::manager manager(metall::create_only, store);
        auto* vector = manager.construct<entries>("vec")(manager.get_allocator());
        vector->resize(2);
        vector->at(1).key = "a key that is too long to lie inside the string";
        vector->at(1).value = 100;
    }
    const metall::manager manager(metall::open_read_only, store);
    const auto* vector = manager.find<entries>("vec").first;
    require(vector->at(1).value == 100 && vector->at(1).key.back() == 'g' && vector->at(0).key.empty(), "entries");
}

void fallback_allocators(const std::string& store) {
    using numbers = mc::vector<int, metall::manager::fallback_allocator<int>>;
    using adapted = mc::vector<int, metall::utility::fallback_allocator_adaptor<allocator<int>>>;
    metall::manager manager(metall::create_only, store);
    auto* inside = manager.construct<numbers>("vec")(manager.get_allocator());
    inside->push_back(1);
    numbers outside;
    outside.push_back(2);
    *inside = outside;
    require(inside->front() == 2 && outside.front() == 2, "the same type in the store and outside");
    adapted also_outside;
    also_outside.push_back(3);
    require(also_outside.front() == 3, "the adaptor");
}

template <class Container, class... Args>
bool can_be_made(metall::manager& manager, const char* name, Args&&... args) {
    auto* made = manager.construct<Container>(name)(std::forward<Args>(args)..., manager.get_allocator());
    return made != nullptr && manager.destroy_ptr(made);
}

void all_containers(const std::string& store) {
    metall::manager manager(metall::create_only, store);
    require(can_be_made<mc::deque<int>>(manager, "deque") && can_be_made<mc::list<int>>(manager, "list"), "sequences");
    require(can_be_made<mc::map<int, int>>(manager, "map") && can_be_made<mc::multiset<int>>(manager, "set"), "trees");
    require(can_be_made<mc::unordered_multimap<int, int>>(manager, "umap"), "hash tables");
    require(can_be_made<mc::unordered_flat_set<int>>(manager, "flat set"), "flat hash tables");
    require(can_be_made<mc::string>(manager, "string") && can_be_made<mc::wstring>(manager, "wstring"), "strings");
    auto* stack = manager.construct<mc::stack<int>>("stack")(manager.get_allocator());
    auto* queue = manager.construct<mc::priority_queue<int>>("queue")(manager.get_allocator());
    for (const int number : {1, 3, 2}) {
        stack->push(number);
        queue->push(number);
    }
    require(stack->top() == 2 && queue->top() == 3, "adaptors");
    require(manager.destroy<mc::stack<int>>("stack") && manager.destroy_ptr(queue), "destroy the adaptors");
    require(manager.all_memory_deallocated(), "nothing is left");
}

void failures(const std::string& store) {
    const std::string deep = store + ".new/a/b/c";
    {
        metall::manager manager(metall::create_only, deep);
        require(manager.check_sanity(), "the directories above are made");
        require(manager.construct<int>("x")(1) != nullptr && manager.construct<int>("x")(1) == nullptr, "a taken name");
        require(manager.find<long>("x").first == nullptr, "another type");
        require(!manager.destroy_ptr(&manager) && manager.get_instance_length(&manager) == 0, "what is no object");
        require(!metall::manager(metall::open_only, deep).check_sanity(), "a second writer");
        require(!metall::manager(metall::create_only, deep).check_sanity(), "overwriting an open store");
    }
    {
        metall::manager manager(metall::create_only, deep, std::size_t{16} << 20U);
        require(manager.check_sanity() && manager.find<int>("x").first == nullptr, "create_only overwrites");
        require(manager.get_size() == std::size_t{16} << 20U && manager.allocate(std::size_t{17} << 20U) == nullptr,
                "the capacity is a limit");
        require(metall::manager::chunk_size() == std::size_t{1} << 21U, "chunk_size");
        require(metall::basic_manager<std::uint32_t, 1U << 20U>::chunk_size() == 1U << 20U, "chosen chunk size");
    }
    std::filesystem::create_directories(store + ".ours/file");
    require(!metall::manager(metall::create_only, store + ".ours").check_sanity() &&
                !metall::manager::copy(deep, store + ".ours") && std::filesystem::exists(store + ".ours/file") &&
                !std::filesystem::exists(store + ".ours.incoming"),
            "a directory that is no data store is left alone");
    metall::manager nowhere(metall::open_only, store + ".none");
    require(!nowhere.check_sanity() && nowhere.allocate(8) == nullptr && nowhere.get_address() == nullptr, "not open");
    require(nowhere.construct<int>("x")[2](1) == nullptr && nowhere.find<int>("x").second == 0, "no objects");
    require(!nowhere.snapshot(deep + ".snapshot") && nowhere.get_uuid().empty() && nowhere.get_version() == 0,
            "no store");
    require(nowhere.named_begin() == nowhere.named_end(), "no iteration");
    nowhere.flush();

    require(metall::manager::copy_async(deep, deep + ".copy").get() && metall::manager::copy(deep, deep + ".copy"),
            "copy");
    require(!metall::manager::copy(store + ".none", deep + ".copy"), "copy of what is not there");
    require(metall::manager::consistent(deep + ".copy"), "the copy that was there stands");
    require(metall::manager::get_version(deep) == METALL_VERSION, "version");
    require(metall::to_version_string(METALL_VERSION) == "0.28.0", "version as text");
    require(metall::manager::remove_async(deep + ".copy").get() && !metall::manager::consistent(deep + ".copy"),
            "remove");
}

}  // namespace

int main(int count, char** arguments) {
    metall::logger::set_log_level(metall::logger::level_filter::silent);  // what fails here is meant to
    return port::run(
        count, arguments,
        {simple, string, maps_of_strings, containers_of_containers, snapshots, offset_pointers, graphs, concurrent_maps,
         descriptions_and_attributes, allocator_aware_types, fallback_allocators, all_containers, failures});
}
