{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Serve.Config.Include
-- Description : Files that include files
-- Stability   : internal, exempt from the version policy
--
-- The key @include@ of any mapping names files, whose keys then stand in its place. A list or a mapping that both have is joined, so each
-- of several files can have hosts; any other key that both have is a mistake, which the decoder reports at its place.
--
-- Cost: each file is read once for each time that it is included.
-- Owner: values.
module Heddle.Serve.Config.Include
  ( readTree,
    ReadTree (..),
  )
where

import Control.Monad (filterM)
import Data.ByteString (ByteString)
import Data.IntMap.Strict qualified as IntMap
import Data.List (foldl', intercalate, nub, partition, sort)
import Data.Map.Strict qualified as Map
import Data.Text (Text)
import Data.Text qualified as T
import Heddle.Prim.Atomic (Ref, modifyRef, newRef, readRef)
import Heddle.Prim.Errno (describeErrno, errnoOf)
import Heddle.Prim.Exception (IOException, displayException, try)
import Heddle.Serve.Config.Source (readSource)
import Heddle.Serve.Config.Tree
import Heddle.Serve.FileOptions (argumentBytes)
import Heddle.Serve.Glob (Glob, matches, parseGlob)
import System.Directory (canonicalizePath, doesFileExist, listDirectory)
import System.FilePath (takeDirectory, takeFileName, (</>))

-- | The tree of a file and of what it includes.
data ReadTree = ReadTree
  { -- | Without what could not be read; 'Nothing' if that is the file itself.
    treeNode :: !(Maybe Node),
    treeProblems :: ![Problem],
    -- | All files that were read, also those with mistakes, and the patterns of files.
    treeFiles :: ![FilePath]
  }

-- What has been found so far, the newest first.
data Reading = Reading
  { readingVariable :: Text -> Maybe Text,
    readingProblems :: !(Ref [Problem]),
    readingFiles :: !(Ref [FilePath]),
    readingCount :: !(Ref Int)
  }

-- | Read a file and what it includes. The function looks environment variables up.
--
-- [Blocks]: holds an OS thread while it reads.
readTree :: (Text -> Maybe Text) -> FilePath -> IO ReadTree
readTree environment file = do
  reading <- Reading environment <$> newRef [] <*> newRef [] <*> newRef 0
  node <- readOne reading [] (Position file 1 1) file
  ReadTree node . reverse <$> readRef (readingProblems reading) <*> (nub . reverse <$> readRef (readingFiles reading))

problem :: Reading -> Position -> String -> IO ()
problem reading at why = modifyRef (readingProblems reading) (\known -> (Problem at why : known, ()))

-- Two files that include the next two twice are read without an end.
mostFiles :: Int
mostFiles = 5000

readOne :: Reading -> [FilePath] -> Position -> FilePath -> IO (Maybe Node)
readOne reading above at file = do
  -- Opening it tells what is wrong with it.
  real <- either (\(_ :: IOException) -> file) id <$> try (canonicalizePath file)
  number <- modifyRef (readingCount reading) (\n -> (n + 1, n + 1))
  case () of
    _
      | real `elem` above -> nothing at ("this includes itself: " ++ intercalate " includes " (reverse (real : takeUntil real above)))
      | number == mostFiles + 1 -> nothing at ("this is the file after the first " ++ show mostFiles ++ " that are included")
      | number > mostFiles -> pure Nothing
      | otherwise -> do
        modifyRef (readingFiles reading) (\known -> (file : known, ()))
        readSource file >>= either (\why -> nothing at ("cannot read " ++ file ++ ": " ++ why)) (parsed real)
  where
    nothing from why = Nothing <$ problem reading from why
    parsed :: FilePath -> ByteString -> IO (Maybe Node)
    parsed real content = case parseTree (readingVariable reading) file content of
      Left (Problem from why) -> nothing from why
      Right node -> Just <$> including reading (real : above) node
    takeUntil real = \case
      one : others | one /= real -> one : takeUntil real others
      others -> take 1 others

-- Mappings with what they include.
including :: Reading -> [FilePath] -> Node -> IO Node
including reading above (Node at value) =
  Node at <$> case value of
    List nodes -> List <$> traverse (including reading above) nodes
    Mapping given -> do
      let (includes, own) = partition (isInclude . fst) given
      values <- traverse (including reading above . snd) own
      others <- traverse (includedBy . snd) includes
      pure (Mapping (joined (zip (map fst own) values ++ concat others)))
    _ -> pure value
  where
    isInclude key = case nodeValue key of
      Scalar _ name -> name == "include"
      _ -> False
    includedBy (Node from names) = case names of
      List nodes -> concat <$> traverse includedBy nodes
      Scalar _ text -> do
        let Position file _ _ = from
        files <- matching reading from (takeDirectory file) (T.unpack text)
        concat <$> traverse (\one -> readOne reading above from one >>= maybe (pure []) (entriesOf from)) files
      Mapping _ -> [] <$ problem reading from "expected the name of a file or a pattern, and this is a mapping"
      Wrong why -> [] <$ problem reading from why
    entriesOf from node = case nodeValue node of
      Mapping entries -> pure entries
      _ -> [] <$ (problem reading from "an included file is a mapping" >> problem reading (nodePosition node) "this is not a mapping, and it is included")

-- Entries of the same key are joined if both are lists or both are mappings; otherwise they stay, for the decoder to report.
joined :: [(Node, Node)] -> [(Node, Node)]
joined = IntMap.elems . fst . foldl' add (IntMap.empty, Map.empty) . zip [0 ..]
  where
    -- Entries by their place, and the place of the first one of each key.
    add (kept, places) (place, entry@(key, Node _ value)) = case nodeValue key of
      Scalar _ name
        | Just at <- Map.lookup name places,
          Just (first, Node from was) <- IntMap.lookup at kept,
          fileOf first /= fileOf key,
          Just both <- join was value ->
          (IntMap.insert at (first, Node from both) kept, places)
        | otherwise -> (IntMap.insert place entry kept, Map.insertWith (\_ before -> before) name place places)
      _ -> (IntMap.insert place entry kept, places)
    join (List a) (List b) = Just (List (a ++ b))
    join (Mapping a) (Mapping b) = Just (Mapping (joined (a ++ b)))
    join _ _ = Nothing
    fileOf (Node (Position file _ _) _) = file

-- The files of a pattern, in order. A name without a wildcard must be there; that is seen when it is read.
matching :: Reading -> Position -> FilePath -> String -> IO [FilePath]
matching reading at directory text
  | null text = wrong "the name of a file is empty"
  | not (any wild text) = pure [within text]
  | any wild (takeDirectory text) = wrong "a pattern can only be the last part of a path, as in sites/*.yaml"
  | otherwise = either wrong (named (within (takeDirectory text))) (parseGlob (argumentBytes (takeFileName text)))
  where
    wrong why = [] <$ problem reading at why
    named :: FilePath -> Glob -> IO [FilePath]
    named folder glob = do
      modifyRef (readingFiles reading) (\known -> ((folder </> takeFileName text) : known, ()))
      try (listDirectory folder) >>= \case
        Left e -> wrong ("cannot read the directory " ++ folder ++ ": " ++ maybe (displayException e) describeErrno (errnoOf (e :: IOException)))
        Right names -> filterM doesFileExist [folder </> name | name <- sort names, take 1 name /= ".", matches glob ("/" <> argumentBytes name)]
    wild c = c `elem` ("*?{" :: String)
    within name = if directory == "." then name else directory </> name
