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

import Control.Monad (filterM, (<=<))
import Data.ByteString qualified as B
import Data.ByteString.Lazy qualified as L
import Data.List (intercalate, nub, partition, sort)
import Data.Text (Text)
import Data.Text qualified as T
import Heddle.Prim.Errno (describeErrno, errnoOf)
import Heddle.Prim.Exception (IOException, displayException, try)
import Heddle.Serve.Config.Tree
import Heddle.Serve.FileOptions (argumentBytes)
import Heddle.Serve.Glob (matches, parseGlob)
import System.Directory (canonicalizePath, doesFileExist, listDirectory)
import System.FilePath (takeDirectory, takeFileName, (</>))

-- | The tree of a file and of what it includes; and all files that were read, or all mistakes.
data ReadTree = ReadTree
  { treeNode :: !(Either [Problem] Node),
    -- | Also those with mistakes.
    treeFiles :: ![FilePath]
  }

-- | Read a file and what it includes. The function looks environment variables up.
--
-- [Blocks]: holds an OS thread while it reads.
readTree :: (Text -> Maybe Text) -> FilePath -> IO ReadTree
readTree environment file = do
  (node, files) <- readOne environment [] (Position file 1 1) file
  pure (ReadTree node (nub files))

readOne :: (Text -> Maybe Text) -> [FilePath] -> Position -> FilePath -> IO (Either [Problem] Node, [FilePath])
readOne environment above at file = do
  real <- canonicalizePath file
  if real `elem` above
    then pure (Left [Problem at ("this includes itself: " ++ intercalate " includes " (reverse (real : takeUntil real above)))], [])
    else
      try (B.readFile file) >>= \case
        Left e -> pure (Left [Problem at ("cannot read " ++ file ++ ": " ++ maybe (displayException e) describeErrno (errnoOf (e :: IOException)))], [file])
        Right content -> case parseTree environment file (L.fromStrict content) of
          Left problems -> pure (Left problems, [file])
          Right node -> do
            (whole, files) <- including environment (real : above) node
            pure (whole, file : files)
  where
    takeUntil real = \case
      one : others | one /= real -> one : takeUntil real others
      others -> take 1 others

-- Mappings with what they include.
including :: (Text -> Maybe Text) -> [FilePath] -> Node -> IO (Either [Problem] Node, [FilePath])
including environment above (Node at value) = case value of
  Scalar _ _ -> pure (Right (Node at value), [])
  List nodes -> do
    results <- traverse (including environment above) nodes
    pure (Node at . List <$> every (map fst results), concatMap snd results)
  Mapping given -> do
    let (includes, own) = partition (isInclude . fst) given
    results <- traverse (\(_, node) -> including environment above node) own
    included <- traverse (\(_, node) -> includedBy node) includes
    pure
      ( ((\values others -> Node at (Mapping (joined (zip (map fst own) values ++ concat others)))) <$> every (map fst results)) `both` every (map fst included),
        concatMap snd results ++ concatMap snd included
      )
  where
    isInclude key = case nodeValue key of
      Scalar _ name -> name == "include"
      _ -> False
    includedBy node = case nodeValue node of
      List nodes -> do
        results <- traverse includedBy nodes
        pure (concat <$> every (map fst results), concatMap snd results)
      Scalar _ text -> do
        let Position from _ _ = nodePosition node
        matching (nodePosition node) (takeDirectory from) (T.unpack text) >>= \case
          Left problem -> pure (Left [problem], [])
          Right files -> do
            results <- traverse (readOne environment above (nodePosition node)) files
            pure (concat <$> every (map (entriesOf (nodePosition node) <=< fst) results), concatMap snd results)
      Mapping _ -> pure (Left [Problem (nodePosition node) "expected the name of a file or a pattern, and this is a mapping"], [])
    entriesOf from node = case nodeValue node of
      Mapping entries -> Right entries
      _ -> Left [Problem from "an included file is a mapping", Problem (nodePosition node) "this is not a mapping, and it is included"]
    both f x = case (f, x) of
      (Left a, Left b) -> Left (a ++ b)
      _ -> f <*> x

every :: [Either [Problem] a] -> Either [Problem] [a]
every results = case concat [problems | Left problems <- results] of
  [] -> sequence results
  problems -> Left problems

-- Entries of the same key are joined if both are lists or both are mappings; otherwise they stay, for the decoder to report.
joined :: [(Node, Node)] -> [(Node, Node)]
joined = foldl add []
  where
    add before entry@(key, Node _ value) = case break (\(other, _) -> nodeValue other == nodeValue key) before of
      (earlier, (first, Node at was) : later)
        | fileOf first /= fileOf key, Just both <- join was value -> earlier ++ (first, Node at both) : later
      _ -> before ++ [entry]
    join (List a) (List b) = Just (List (a ++ b))
    join (Mapping a) (Mapping b) = Just (Mapping (joined (a ++ b)))
    join _ _ = Nothing
    fileOf (Node (Position file _ _) _) = file

-- The files of a pattern, in order. A name without a wildcard must be there; that is seen when it is read.
matching :: Position -> FilePath -> String -> IO (Either Problem [FilePath])
matching at directory text
  | null text = pure (Left (Problem at "the name of a file is empty"))
  | not (any wild text) = pure (Right [within text])
  | any wild (takeDirectory text) = pure (Left (Problem at "a pattern can only be the last part of a path, as in sites/*.yaml"))
  | otherwise = case parseGlob (argumentBytes (takeFileName text)) of
    Left why -> pure (Left (Problem at why))
    Right glob -> do
      let folder = within (takeDirectory text)
      try (listDirectory folder) >>= \case
        Left e -> pure (Left (Problem at ("cannot read the directory " ++ folder ++ ": " ++ maybe (displayException e) describeErrno (errnoOf (e :: IOException)))))
        Right names -> do
          files <- filterM doesFileExist [folder </> name | name <- sort names, take 1 name /= ".", matches glob ("/" <> argumentBytes name)]
          pure (Right files)
  where
    wild c = c `elem` ("*?{" :: String)
    within name = if directory == "." then name else directory </> name
