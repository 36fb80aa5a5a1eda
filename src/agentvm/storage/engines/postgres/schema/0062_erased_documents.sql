-- A collection or a resource whose words are to leave the search index and the file.
ALTER TABLE erasures ADD COLUMN target text COLLATE "C";
