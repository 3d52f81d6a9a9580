// What the examples of Boost.Interprocess's documentation do, with the results that it promises: objects, memory,
// allocators, containers. The programs are written anew; of the port there is nothing but the include and the alias.
// interprocess_pointers.cpp has smart pointers, Boost.Intrusive and locks.
#include "ports/interprocess_examples.hpp"

#include <array>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/container/scoped_allocator.hpp>

#include "ports/port.hpp"

namespace {

using port::require;
using shared_string = bip::basic_string<char, std::char_traits<char>, allocator<char>>;
using int_vector = bip::vector<int, allocator<int>>;

/// The error that `call` ends with; no_error where it returns.
template <class Call>
bip::error_code_t error_of(Call&& call) {
    try {
        call();
    } catch (const bip::bad_alloc&) {
        return bip::out_of_memory_error;
    } catch (const bip::interprocess_exception& failure) {
        return failure.get_error_code();
    }
    return bip::no_error;
}

void named_objects(const std::string& file) {
    using pair_type = std::pair<double, int>;
    {
        bip::managed_mapped_file segment(bip::create_only, file, 65536);
        segment.construct<pair_type>("MyType instance")(0.0, 0);
        segment.construct<pair_type>("MyType array")[10](1.5, 7);
        const std::array<float, 3> floats{0.0F, 1.0F, 2.0F};
        const std::array<int, 3> ints{3, 4, 5};
        const pair_type* made = segment.construct_it<pair_type>("from iterators")[3](&floats[0], &ints[0]);
        require(made[2].first == 2.0 && made[2].second == 5, "construct_it");
        require(segment.construct<int>("MyType array", std::nothrow)(1) == nullptr, "a taken name, with nothrow");
        require(error_of([&] { segment.construct<int>("MyType array")(1); }) == bip::already_exists_error,
                "a taken name");
        require(*segment.find_or_construct<int>(bip::unique_instance)(1) == 1, "a unique object");
        require(*segment.find_or_construct<int>(bip::unique_instance)(2) == 1, "found and not constructed");
    }
    bip::managed_mapped_file segment(bip::open_only, file);
    const auto array = segment.find<pair_type>("MyType array");
    require(array.second == 10 && array.first[9] == pair_type(1.5, 7), "the array of the first session");
    require(segment.find<pair_type>("none") == std::pair<pair_type*, std::size_t>(nullptr, 0), "what is not there");
    require(std::string_view(bip::managed_mapped_file::get_instance_name(array.first)) == "MyType array", "its name");
    require(bip::managed_mapped_file::get_instance_length(array.first) == 10, "its length");
    require(bip::managed_mapped_file::get_instance_type(array.first) == bip::named_type, "its kind");
    auto* nameless = segment.construct<int>(bip::anonymous_instance)(1);
    require(segment.get_instance_name(nameless) == nullptr, "an anonymous object has no name");
    require(segment.get_instance_type(nameless) == bip::anonymous_type, "an anonymous object");
    segment.destroy_ptr(nameless);

    std::string names;
    for (auto position = segment.named_begin(); position != segment.named_end(); ++position) {
        names += std::string(position->name(), position->name_length()) + ";";
        require(segment.belongs_to_segment(position->value()), "the address of an object");
    }
    require(names == "MyType array;MyType instance;from iterators;", "names");
    require(segment.get_num_named_objects() == 3 && segment.get_num_unique_objects() == 1, "numbers of objects");
    auto both = [&segment] {
        segment.destroy<pair_type>("MyType array");
        segment.construct<int>("MyType array")(3);
    };
    segment.atomic_func(both);
    require(*segment.find<int>("MyType array").first == 3, "atomic_func");
    require(segment.destroy<int>("MyType array") && !segment.destroy<int>("MyType array"), "destroy");
}

void raw_memory(const std::string& file) {
    bip::managed_mapped_file segment(bip::create_only, file, 1U << 20U);
    const std::size_t free = segment.get_free_memory();
    require(segment.get_size() == 1U << 20U && free == 1U << 20U && segment.all_memory_deallocated(),
            "an empty segment");
    require(
        error_of([&] { bip::managed_mapped_file(bip::create_only, file + ".huge", ~std::size_t{0}); }) != bip::no_error,
        "a size that no file has");
    void* block = segment.allocate(1024);
    require(free - segment.get_free_memory() >= 1024 && !segment.all_memory_deallocated(), "a block");
    const auto handle = segment.get_handle_from_address(block);
    require(segment.get_address_from_handle(handle) == block, "handles");
    segment.deallocate(block);
    require(segment.allocate(std::size_t{1} << 30U, std::nothrow) == nullptr, "too much, with nothrow");
    require(error_of([&] { static_cast<void>(segment.allocate(std::size_t{1} << 30U)); }) == bip::out_of_memory_error,
            "too much");

    void* aligned = segment.allocate_aligned(100, 4096);
    require(segment.get_handle_from_address(aligned) % 4096 == 0, "aligned");
    segment.deallocate(aligned);

    bip::managed_mapped_file::multiallocation_chain chain;
    segment.allocate_many(100, 16, chain);
    const std::array<std::size_t, 3> lengths{1, 20, 300};
    segment.allocate_many(lengths.data(), lengths.size(), sizeof(int), chain);
    require(chain.size() == 19, "many blocks");
    // Was: 1 and 4 bytes.
    const std::array<std::size_t, 2> too_long{1, (std::size_t{1} << 62U) + 1};
    segment.allocate_many(std::nothrow, too_long.data(), too_long.size(), sizeof(int), chain);
    require(error_of([&] { segment.allocate_many(too_long.data(), too_long.size(), sizeof(int), chain); }) ==
                    bip::out_of_memory_error &&
                chain.size() == 19,
            "a length in bytes that does not fit");
    std::vector<void*> blocks;
    while (!chain.empty()) {
        blocks.push_back(chain.pop_front().get());
        std::memset(blocks.back(), 0x55, 4);
    }
    for (void* one : blocks) {
        segment.deallocate(one);
    }

    std::size_t wanted = 32;
    int* none = nullptr;
    int* numbers = segment.allocation_command<int>(bip::allocate_new, 10, wanted, none);
    require(numbers != nullptr && wanted >= 32, "allocation_command allocates");
    std::size_t least = wanted;
    int* reused = numbers;
    require(
        segment.allocation_command<int>(bip::expand_fwd | bip::nothrow_allocation, wanted, least, reused) == numbers,
        "a block has room for what its size class holds");
    require(
        segment.allocation_command<int>(bip::expand_fwd | bip::nothrow_allocation, 100'000, least, reused) == nullptr,
        "and for no more");
    segment.deallocate(numbers);

    auto* secret = static_cast<unsigned char*>(segment.allocate(200));
    std::memset(secret, 0x77, 200);
    int* kept = segment.construct<int>("kept")(9);
    segment.deallocate(secret);
    segment.zero_free_memory();
    require(secret[0] == 0 && secret[100] == 0 && secret[199] == 0, "free memory is zero");
    require(*kept == 9 && segment.check_sanity(), "and the rest is as it was");
    segment.destroy_ptr(kept);
    require(segment.all_memory_deallocated() && segment.get_free_memory() == free, "everything is free");
}

template <class Allocator>
void test_allocator(bip::managed_mapped_file& segment, const char* name) {
    using list_type = bip::list<int, Allocator>;
    const Allocator from(segment.get_segment_manager());
    auto* list = segment.construct<list_type>(name)(from);
    for (int i = 0; i < 100; ++i) {
        list->push_back(i);
    }
    require(list->back() == 99 && list->get_allocator() == from, name);
    require(list->get_stored_allocator().get_segment_manager() == segment.get_segment_manager(), name);
    list->get_stored_allocator().deallocate_free_blocks();
    require(segment.destroy<list_type>(name), name);
}

void allocators(const std::string& file) {
    bip::managed_mapped_file segment(bip::create_only, file, 1U << 16U);
    allocator<int> plain(segment.get_segment_manager());
    {
        const bip::offset_ptr<int> block = plain.allocate(100);
        block[99] = 1;
        require(plain.size(block) >= 100 && plain.address(block[1]) == block + 1, "memory of an allocator");
        plain.deallocate(block, 100);
    }
    require(error_of([&] { static_cast<void>(plain.allocate(std::size_t{1} << 40U)); }) == bip::out_of_memory_error,
            "too much of an allocator");
    test_allocator<bip::node_allocator<int, segment_manager>>(segment, "node_allocator");
    test_allocator<bip::private_node_allocator<int, segment_manager>>(segment, "private_node_allocator");
    test_allocator<bip::cached_node_allocator<int, segment_manager>>(segment, "cached_node_allocator");
    test_allocator<bip::adaptive_pool<int, segment_manager>>(segment, "adaptive_pool");
    test_allocator<bip::private_adaptive_pool<int, segment_manager>>(segment, "private_adaptive_pool");
    test_allocator<bip::cached_adaptive_pool<int, segment_manager, 128>>(segment, "cached_adaptive_pool");
    require(segment.all_memory_deallocated(), "nothing is left");
}

/// An element with containers in it, whose constructor takes a void allocator, as the documentation advises.
struct complex_data {
    using void_allocator = allocator<void>;
    complex_data(int number, std::string_view text, const void_allocator& from)
        : id(number), name(text.data(), text.size(), from), matrix(from) {
        matrix.push_back(int_vector(3, number, from));
    }
    int id;
    shared_string name;
    bip::vector<int_vector, allocator<int_vector>> matrix;
};

void containers(const std::string& file) {
    using map_type = bip::map<shared_string, complex_data, std::less<shared_string>,
                              allocator<std::pair<const shared_string, complex_data>>>;
    using hash_type = holdfast::unordered_map<int, float, holdfast::hash<int>, std::equal_to<int>,
                                              allocator<std::pair<const int, float>>>;
    using rows = bip::vector<shared_string, boost::container::scoped_allocator_adaptor<allocator<shared_string>>>;
    {
        bip::managed_mapped_file segment(bip::create_only, file, 1U << 18U);
        auto* numbers = segment.construct<int_vector>("MyVector")(segment.get_segment_manager());
        for (int i = 0; i < 100; ++i) {
            numbers->push_back(i);
        }
        const complex_data::void_allocator from(segment.get_segment_manager());
        auto* map = segment.construct<map_type>("MyMap")(std::less<shared_string>(), from);
        map->emplace(shared_string("key", from), complex_data(7, "a name that needs a block of its own", from));
        auto* hashed = segment.construct<hash_type>("MyHashMap")(segment.get_allocator<std::pair<const int, float>>());
        for (int i = 0; i < 100; ++i) {
            hashed->emplace(i, static_cast<float>(i));
        }
        auto* strings = segment.construct<rows>("strings")(segment.get_allocator<shared_string>());
        strings->emplace_back("an element that gets the allocator of its vector");
        shared_string moved("a string that is moved into the segment", from);
        strings->push_back(std::move(moved));
        require(strings->back() == "a string that is moved into the segment", "moved");
    }
    bip::managed_mapped_file segment(bip::open_only, file);
    auto* numbers = segment.find<int_vector>("MyVector").first;
    require(numbers->size() == 100 && numbers->at(99) == 99, "the vector");
    const auto& entry = segment.find<map_type>("MyMap").first->begin()->second;
    require(entry.id == 7 && entry.name.size() == 36 && entry.matrix[0][2] == 7, "the map");
    require(segment.find<hash_type>("MyHashMap").first->at(50) == 50.0F, "the hash table");
    require(segment.find<rows>("strings").first->front().get_allocator() == segment.get_allocator<char>(), "strings");
    bip::vector<int> ordinary{1, 2, 3};
    numbers->assign(ordinary.begin(), ordinary.end());
    require(numbers->size() == 3, "a vector in ordinary memory");
    require(segment.destroy<int_vector>("MyVector") && segment.destroy<map_type>("MyMap") &&
                segment.destroy<hash_type>("MyHashMap") && segment.destroy<rows>("strings"),
            "destroy");
    require(segment.all_memory_deallocated(), "nothing is left");
}

void sizes(const std::string& file) {
    constexpr std::size_t size = std::size_t{1} << 20U;
    const auto fill = [&] {
        bip::managed_mapped_file segment(bip::open_only, file);
        std::size_t bytes = 0;
        while (segment.allocate(1000, std::nothrow) != nullptr) {
            bytes += 1000;
        }
        return bytes;
    };
    { bip::managed_mapped_file segment(bip::create_only, file, size); }
    require(
        error_of([&] { bip::managed_mapped_file again(bip::create_only, file, size); }) == bip::already_exists_error,
        "create_only of what is there");
    const std::size_t first = fill();
    require(first >= size && first < size + size / 8 + (std::size_t{4} << 20U), "the size limits");
    require(bip::managed_mapped_file::grow(file, 2 * size), "grow");
    require(bip::managed_mapped_file(bip::open_only, file).get_size() >= 3 * size, "the size after grow");
    require(fill() >= size, "there is room again");
    {
        bip::managed_mapped_file segment(bip::open_only, file);
        std::vector<void*> blocks;
        segment.native().for_each_block([&](const holdfast::block_info& block) { blocks.push_back(block.address); });
        for (void* block : blocks) {
            segment.deallocate(block);
        }
        segment.construct<int>("last")(1);
    }
    require(bip::managed_mapped_file::shrink_to_fit(file), "shrink_to_fit");
    bip::managed_mapped_file segment(bip::open_or_create, file, 4 * size);
    require(segment.get_size() < size && *segment.find<int>("last").first == 1, "the size after shrink_to_fit");
    require(!bip::managed_mapped_file::grow(file, size), "grow of an open segment");
    require(!bip::managed_mapped_file::grow(file + ".none", size), "grow of what is not there");
}

/// A program that grows its segment by what the next block needs, when that is refused or when it counts.
void growth(const std::string& file) {
    for (const bool counts : {false, true}) {
        bip::file_mapping::remove(file.c_str());
        { bip::managed_mapped_file segment(bip::create_only, file, std::size_t{1} << 16U); }
        auto segment = std::make_unique<bip::managed_mapped_file>(bip::open_only, file);
        std::size_t grown = 0;
        for (std::size_t bytes = 0, i = 0; bytes < std::size_t{12} << 20U; ++i) {
            const std::size_t wanted = 1 + i * 7919 % 300'000;
            void* block =
                counts && segment->get_free_memory() < wanted ? nullptr : segment->allocate(wanted, std::nothrow);
            if (block == nullptr) {
                segment.reset();
                require(bip::managed_mapped_file::grow(file, wanted), "grow by a block");
                segment = std::make_unique<bip::managed_mapped_file>(bip::open_only, file);
                require(segment->get_free_memory() >= wanted, "the free memory after grow");
                block = segment->allocate(wanted, std::nothrow);
                ++grown;
            }
            require(block != nullptr, "one grow is enough");
            bytes += wanted;
        }
        require(grown > 2, "growths");
    }
}

void open_modes(const std::string& file) {
    {
        bip::managed_mapped_file segment(bip::create_only, file, 1U << 16U, nullptr, bip::permissions(0600));
        segment.construct<int>("value")(1);
        require(error_of([&] { bip::managed_mapped_file second(bip::open_only, file); }) == bip::busy_error,
                "a second writer");
        bip::managed_mapped_file moved(std::move(segment));
        require(moved.flush() && moved.get_segment_manager()->find<int>("value").second == 1, "moved");
        bip::managed_mapped_file none;
        none.swap(moved);
        require(moved.get_segment_manager() == nullptr && none.find<int>("value").second == 1, "swapped");
    }
    const auto others = std::filesystem::status(file).permissions() & std::filesystem::perms::others_all;
    require(others == std::filesystem::perms::none, "permissions");
    {
        bip::managed_mapped_file segment(bip::open_copy_on_write, file);
        *segment.find<int>("value").first = 2;
        segment.construct<int>("another")(1);
        require(segment.flush() && segment.find<int>("another").second == 1, "changes of our own");
    }
    const bip::managed_mapped_file reader(bip::open_read_only, file);
    const bip::managed_mapped_file another(bip::open_read_only, file);
    require(*reader.find<int>("value").first == 1, "copy on write leaves the segment as it was");
    require(reader.find<int>("another").first == nullptr && another.find<int>("value").second == 1, "two readers");
    require(error_of([&] { static_cast<void>(reader.allocate(8)); }) == bip::read_only_error, "allocation of a reader");
    require(error_of([&] { bip::managed_mapped_file no(bip::open_only, file + ".none"); }) == bip::not_found_error,
            "what is not there");
    require(!bip::file_mapping::remove(file.c_str()), "remove of an open segment");
    try {
        bip::managed_mapped_file no(bip::open_only, file + ".none");
    } catch (const std::exception& failure) {
        require(std::string_view(failure.what()).find(file) != std::string_view::npos, "the message names the path");
    }
}

void removal(const std::string& file) {
    { bip::managed_mapped_file segment(bip::open_or_create, file, 1U << 16U); }
    require(bip::file_mapping::remove(file.c_str()) && !bip::file_mapping::remove(file.c_str()), "remove, twice");
}

}  // namespace

int main(int count, char** arguments) {
    return port::run(count, arguments,
                     {named_objects, raw_memory, allocators, containers, sizes, growth, open_modes, removal,
                      smart_pointers, intrusive_containers, locks, locks_of_the_dead, static_objects});
}
