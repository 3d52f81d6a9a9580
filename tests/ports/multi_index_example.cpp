// Boost.MultiIndex, Boost.Unordered and the streams of Boost.Interprocess take allocators of a segment, as their
// documentation shows.
#include <functional>
#include <string>
#include <utility>

#include <boost/interprocess/streams/vectorstream.hpp>
#include <boost/multi_index/hashed_index.hpp>
#include <boost/multi_index/member.hpp>
#include <boost/multi_index/ordered_index.hpp>
#include <boost/multi_index_container.hpp>
#include <boost/unordered_map.hpp>
#include <holdfast/compat/interprocess.hpp>

#include "ports/port.hpp"

namespace bip = holdfast::compat::interprocess;
namespace bmi = boost::multi_index;

namespace {

using port::require;
template <class T>
using allocator = bip::allocator<T, bip::managed_mapped_file::segment_manager>;
using shared_string = bip::basic_string<char, std::char_traits<char>, allocator<char>>;

struct employee {
    employee(int number, int years, const char* text, const allocator<char>& from)
        : id(number), age(years), name(text, from) {}
    int id;
    int age;
    shared_string name;
};
using employees = bmi::multi_index_container<
    employee,
    bmi::indexed_by<bmi::ordered_unique<bmi::member<employee, int, &employee::id>>,
                    bmi::ordered_non_unique<bmi::member<employee, shared_string, &employee::name>>,
                    bmi::hashed_non_unique<bmi::member<employee, int, &employee::age>>>,
    allocator<employee>>;

void several_indices(const std::string& file) {
    bip::managed_mapped_file segment(bip::create_only, file, 1U << 18U);
    auto* all =
        segment.construct<employees>("employees")(employees::ctor_args_list(), segment.get_allocator<employee>());
    for (int i = 0; i < 100; ++i) {
        const std::string name = "a name that needs a block of its own, number " + std::to_string(99 - i);
        all->insert(employee(i, 20 + i % 10, name.c_str(), segment.get_allocator<char>()));
    }
    // A copy that is open at the same time lies at another address.
    segment.native().snapshot(file + ".copy");
    const bip::managed_mapped_file copy(bip::open_read_only, file + ".copy");
    const auto* copied = copy.find<employees>("employees").first;
    require(copied->size() == 100 && copied->find(50)->age == 20, "by number");
    require(copied->get<2>().count(23) == 10 && copied->get<2>().count(3) == 0, "by age");
    require(copied->get<1>().begin()->id == 99 && copy.belongs_to_segment(&*copied->get<1>().begin()), "by name");
    all->erase(50);
    require(segment.destroy<employees>("employees") && segment.all_memory_deallocated(), "nothing is left");
}

void hash_tables(const std::string& file) {
    using table =
        boost::unordered_map<int, float, boost::hash<int>, std::equal_to<>, allocator<std::pair<const int, float>>>;
    bip::managed_mapped_file segment(bip::create_only, file, 1U << 16U);
    auto* squares = segment.construct<table>("squares")(3U, boost::hash<int>(), std::equal_to<>(),
                                                        segment.get_allocator<std::pair<const int, float>>());
    for (int i = 0; i < 100; ++i) {
        squares->emplace(i, static_cast<float>(i * i));
    }
    segment.native().snapshot(file + ".copy");
    const bip::managed_mapped_file copy(bip::open_read_only, file + ".copy");
    require(copy.find<table>("squares").first->at(9) == 81.0F, "a hash table");
}

void streams(const std::string& file) {
    bip::managed_mapped_file segment(bip::create_only, file, 1U << 16U);
    boost::interprocess::basic_vectorstream<shared_string> stream(segment.get_allocator<char>());
    stream << 1 << ' ' << 2.5 << " and enough text to leave the string itself";
    shared_string text(segment.get_allocator<char>());
    stream.swap_vector(text);
    require(text == "1 2.5 and enough text to leave the string itself", "a stream into the segment");
}

}  // namespace

int main(int count, char** arguments) { return port::run(count, arguments, {several_indices, hash_tables, streams}); }
