mod group;
