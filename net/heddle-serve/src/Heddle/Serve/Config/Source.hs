{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Serve.Config.Source
-- Description : The text of a configuration, before it is parsed
-- Stability   : internal, exempt from the version policy
--
-- The parser throws an error of its own at bytes that are not UTF-8, and its time doubles with each bracket that is open. Such texts are
-- refused here.
--
-- Cost: O(length).
-- Owner: values.
module Heddle.Serve.Config.Source
  ( readSource,
    refusedSource,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.Char (isAlphaNum)
import Data.Either (isLeft)
import Data.Text (Text)
import Data.Text qualified as T
import Data.Text.Encoding (decodeUtf8', decodeUtf8With)
import Heddle.Prim.Errno (describeErrno, errnoOf)
import Heddle.Prim.Exception (IOException, displayException, try)
import System.Directory (doesDirectoryExist)
import System.IO (IOMode (ReadMode), withBinaryFile)

-- | Read a file, or say why it cannot be read. A pipe is read to its end.
--
-- [Blocks]: holds an OS thread while it reads.
readSource :: FilePath -> IO (Either String ByteString)
readSource file =
  try (withBinaryFile file ReadMode (`B.hGet` (longest + 1))) >>= \case
    Right content
      | B.length content > longest -> pure (Left ("it is longer than " ++ show (longest `quot` 1048576) ++ " MB"))
      | otherwise -> pure (Right content)
    Left (e :: IOException) -> do
      directory <- doesDirectoryExist file
      pure (Left (if directory then "it is a directory" else maybe (displayException e) describeErrno (errnoOf e)))

-- A device without an end would take all memory.
longest :: Int
longest = 4194304

-- | What the parser does not survive: line, column and what is wrong.
--
-- [Cost]: O(length).
refusedSource :: ByteString -> Maybe (Int, Int, String)
refusedSource content = case decodeUtf8' content of
  Left _ -> case [(line, bytes) | (line, bytes) <- zip [1 ..] (C.split '\n' content), isLeft (decodeUtf8' bytes)] of
    (line, bytes) : _ -> Just (line, 1 + T.length (T.takeWhile (/= wrong) (decodeUtf8With (\_ _ -> Just wrong) bytes)), "this is not UTF-8, which a configuration is written in")
    -- No character goes beyond its line.
    [] -> Nothing
  Right text
    | (before, rest) <- T.breakOn "\0" text, not (T.null rest) -> Just (1 + T.count "\n" before, 1 + T.length (T.takeWhileEnd (/= '\n') before), "a configuration holds no zero byte")
    | otherwise -> (\(line, column) -> (line, column, "brackets nest deeper than " ++ show deepest ++ " here, and no value of a configuration does")) <$> tooDeep text
  where
    -- No character of a text.
    wrong = '\xFFFF'

-- The grammar needs 6, and each one more doubles the parser's time.
deepest :: Int
deepest = 10

-- Where brackets of flow style nest too deeply. Brackets in quotes, in comments and within words do not count. In a block of text a
-- quotation mark or a bracket can be taken for the beginning of a value; a key at the beginning of a line ends that.
tooDeep :: Text -> Maybe (Int, Int)
tooDeep = go 1 1 0 '\n' . T.unpack
  where
    -- The place, how many brackets are open, and the last character that is no space.
    go :: Int -> Int -> Int -> Char -> String -> Maybe (Int, Int)
    go _ _ _ _ [] = Nothing
    go line column depth final (c : rest)
      | c == '\n' = go (line + 1) 1 depth c rest
      | c == ' ' || c == '\t' || c == '\r' = case rest of
        '#' : comment -> let (skipped, more) = break (== '\n') comment in go line (column + 2 + length skipped) depth final more
        _ -> go line (column + 1) depth final rest
      | column == 1 && c == '#' = let (skipped, more) = break (== '\n') rest in go line (column + 1 + length skipped) depth final more
      | (c == '"' || c == '\'') && begins = quoted c line (column + 1) depth rest
      | c `elem` opening && (depth > 0 || begins) = if depth == deepest then Just (line, column) else go line (column + 1) (depth + 1) c rest
      -- Within a word.
      | c `elem` opening = go line (column + 1) depth 'x' rest
      | c `elem` closing = go line (column + 1) (max 0 (depth - 1)) c rest
      | column == 1 && isAlphaNum c = go line (column + 1) 0 c rest
      | otherwise = go line (column + 1) depth c rest
      where
        begins = final `elem` ("\n:-?,[{" :: String)
    quoted q line column depth = \case
      '\\' : c : rest | q == '"' -> if c == '\n' then quoted q (line + 1) 1 depth rest else quoted q line (column + 2) depth rest
      '\'' : '\'' : rest | q == '\'' -> quoted q line (column + 2) depth rest
      c : rest
        | c == q -> go line (column + 1) depth q rest
        | c == '\n' -> quoted q (line + 1) 1 depth rest
        | otherwise -> quoted q line (column + 1) depth rest
      [] -> Nothing
    opening = "[{" :: String
    closing = "]}" :: String
