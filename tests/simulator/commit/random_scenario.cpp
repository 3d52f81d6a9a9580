#include <random>
#include <set>

#include "simulator/commit/commit_scenarios.hpp"

namespace holdfast::simulator {

using segment::objects_file_id;

commit_scenario random_scenario(std::uint64_t seed) {
    constexpr std::uint64_t small = segment::minimum_segment_size;
    std::mt19937_64 random(seed);
    const auto chance = [&random](unsigned percent) { return random() % 100 < percent; };
    commit_scenario one;
    one.name = "random_" + std::to_string(seed);
    one.segment_size = chance(20) ? 2 * small : small;
    one.first_cut = 1;
    one.program.push_back({{{0, 0}, {objects_file_id, 1}}, 1, 65536, false, {}, 0});
    std::uint64_t regions = 1;
    std::uint64_t objects = 65536;
    const std::uint64_t user_pages = one.segment_size / base::page_size;
    for (int step = 0; step < 3; ++step) {
        model_step next;
        next.grow_regions = chance(25) ? 1 : 0;
        next.lower_regions = next.grow_regions == 0 && regions > 1 && chance(30) ? 1 : 0;
        next.grow_objects = chance(20) ? 65536 : 0;
        next.close = chance(25);
        next.stays = chance(60);
        next.waits = chance(50);
        next.goes_home = chance(30);
        next.is_left = next.waits && !next.goes_home && seed % 2 == 0;
        regions += next.grow_regions;
        regions -= next.lower_regions;
        objects += next.grow_objects;
        // Few places, so that steps meet; in old and new segments, metadata and objects.
        std::set<page_place> places;
        for (std::uint64_t count = random() % 4; count > 0; --count) {
            const std::uint64_t page = chance(50) ? random() % 3 : random() % (regions * 512);
            places.emplace(page / user_pages, page % user_pages);
        }
        if (chance(30)) {
            const std::uint64_t segments = base::divide_up(regions * 512, user_pages);
            places.emplace(random() % segments, user_pages + random() % 2);
        }
        if (chance(30)) {
            places.emplace(objects_file_id, 1 + random() % (objects / base::page_size - 1));
        }
        next.dirty.assign(places.begin(), places.end());
        for (const page_place& before : one.program.back().dirty) {
            const bool inside = before.second < user_pages && before.first * user_pages + before.second < regions * 512;
            if (inside && !places.contains(before) && chance(15)) {
                next.holes.push_back(before);
            }
        }
        one.program.push_back(std::move(next));
    }
    return one;
}

}  // namespace holdfast::simulator
