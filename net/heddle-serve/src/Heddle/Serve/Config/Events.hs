{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Serve.Config.Events
-- Description : The events of a YAML text, with their places
-- Stability   : internal, exempt from the version policy
--
-- A binding to the parser of libyaml. It reads YAML 1.1 and the directive @%YAML 1.2@; what differs between the two versions is how
-- texts without quotes are understood, and that is not the parser's work.
--
-- Cost: O(length); one foreign call and one copy of its text for each event.
-- Owner: values; the parser's memory is freed before they are returned.
module Heddle.Serve.Config.Events
  ( Event (..),
    Mark (..),
    eventsOf,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.Foldable (fold)
import Data.Maybe (fromMaybe)
import Data.Text (Text)
import Data.Text qualified as T
import Data.Text.Encoding (decodeUtf8With)
import Data.Text.Encoding.Error (lenientDecode)
import Foreign.C.Types (CChar, CInt (..), CLong, CSize (..))
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Ptr (Ptr, nullPtr)
import Foreign.Storable (peekByteOff)
import Heddle.Prim.Exception (bracket)
import Heddle.Prim.Unsafe (unsafePure)
import System.IO.Error (fullErrorType, mkIOError)

-- | Line and column from 1, columns in characters.
data Mark = Mark !Int !Int
  deriving stock (Eq, Show)

-- | The parts of documents that hold values; the others are left out.
data Event
  = -- | Its anchor, whether it is written without quotes, and its text.
    ScalarEvent !(Maybe Text) !Bool !Text
  | ListBegins !(Maybe Text)
  | MappingBegins !(Maybe Text)
  | -- | The end of a list or a mapping.
    Ends
  | AliasEvent !Text
  deriving stock (Eq, Show)

-- | The events of a text of UTF-8 up to its end, or up to a mistake in its syntax or nesting, with what is wrong there.
--
-- [Cost]: O(length).
eventsOf :: ByteString -> ([(Mark, Event)], Maybe (Mark, String))
eventsOf content = unsafePure $
  -- The parser would count a byte order mark as a column, which the first line's keys are then indented by.
  unsafeUseAsCStringLen (fromMaybe content (B.stripPrefix "\xEF\xBB\xBF" content)) $ \(text, size) ->
    bracket (c_open text (fromIntegral size)) (\parser -> if parser == nullPtr then pure () else c_close parser) $ \parser ->
      if parser == nullPtr
        then ioError (mkIOError fullErrorType "there is no memory to read YAML" Nothing Nothing)
        else allocaBytes eventSize (collect parser 0 [])

-- No value of a configuration nests deeper than 6, and whoever reads the values uses the stack.
deepest :: Int
deepest = 100

collect :: Ptr Parser -> Int -> [(Mark, Event)] -> Ptr Raw -> IO ([(Mark, Event)], Maybe (Mark, String))
collect parser = go
  where
    go depth found raw = do
      kind <- c_next parser raw
      mark <- Mark <$> long raw 0 <*> long raw 1
      let next inner event = go inner ((mark, event) : found) raw
          end = pure . (,) (reverse found)
      case kind of
        0 -> end Nothing
        1 -> do
          event <- ScalarEvent <$> anchorIn raw <*> ((/= 0) <$> long raw 5) <*> valueIn raw
          event `seq` next depth event
        2 -> opening end depth mark (anchorIn raw >>= next (depth + 1) . ListBegins)
        3 -> opening end depth mark (anchorIn raw >>= next (depth + 1) . MappingBegins)
        4 -> next (depth - 1) Ends
        5 -> anchorIn raw >>= next depth . AliasEvent . fold
        _ -> do
          why <- valueIn raw
          context <- textAt raw 6
          from <- long raw 5
          let Mark line _ = mark
              -- On the same line it says what can be seen.
              begun = if from == line then "" else foldMap (\what -> " (" ++ T.unpack what ++ " that begins at line " ++ show from ++ ")") context
          end (Just (mark, T.unpack why ++ begun))
    opening end depth mark continue
      | depth == deepest = end (Just (mark, "values nest deeper than " ++ show deepest ++ " here, and none of a configuration does"))
      | otherwise = continue

-- The fields of struct heddle_yaml_event in cbits/heddle_yaml.c, all of one word.
data Raw

data Parser

eventSize :: Int
eventSize = 7 * 8

long :: Ptr Raw -> Int -> IO Int
long raw at = fromIntegral <$> (peekByteOff raw (at * 8) :: IO CLong)

valueIn :: Ptr Raw -> IO Text
valueIn raw = do
  size <- long raw 2
  at <- peekByteOff raw (3 * 8)
  if at == nullPtr then pure T.empty else decoded <$> B.packCStringLen (at, size)

anchorIn :: Ptr Raw -> IO (Maybe Text)
anchorIn raw = textAt raw 4

textAt :: Ptr Raw -> Int -> IO (Maybe Text)
textAt raw field = do
  at <- peekByteOff raw (field * 8) :: IO (Ptr CChar)
  if at == nullPtr then pure Nothing else Just . decoded <$> B.packCString at

-- libyaml gives out nothing but UTF-8.
decoded :: ByteString -> Text
decoded = decodeUtf8With lenientDecode

-- Unsafe: allocates.
foreign import ccall unsafe "heddle_yaml_open" c_open :: Ptr CChar -> CSize -> IO (Ptr Parser)

-- Unsafe: reads memory, for the time that one token takes.
foreign import ccall unsafe "heddle_yaml_next" c_next :: Ptr Parser -> Ptr Raw -> IO CInt

-- Unsafe: frees memory.
foreign import ccall unsafe "heddle_yaml_close" c_close :: Ptr Parser -> IO ()
