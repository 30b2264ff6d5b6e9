{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Serve.Config.Source
-- Description : The text of a configuration, before it is parsed
-- Stability   : internal, exempt from the version policy
--
-- The parser gives no line for bytes that are not UTF-8, and takes a zero byte for the end of a text. Such texts are refused here.
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
import Data.Either (isLeft)
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

-- | Bytes that the parser has no words for: line, column and what is wrong.
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
    | otherwise -> Nothing
  where
    -- No character of a text.
    wrong = '\xFFFF'
