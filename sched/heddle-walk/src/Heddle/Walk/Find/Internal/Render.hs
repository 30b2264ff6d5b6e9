-- |
-- Module      : Heddle.Walk.Find.Internal.Render
-- Description : Records of -printf and -ls
-- Stability   : internal, exempt from the version policy
--
-- A format becomes a list of writers, each of which fetches its part of the entry. Common
-- directives without padding go straight into the walk's buffer.
--
-- Shared writes per record: 0, but for -ls columns that grow.
--
-- Cost: about 20 ns per directive without padding, 0.5 us per time.
-- Owner: the run.
module Heddle.Walk.Find.Internal.Render
  ( Renderer (..),
    newColumns,
    Columns,
    renderFormat,
    renderList,
    shownPath,
  )
where

import Control.Monad (void, when)
import Data.Bits (shiftL, shiftR, (.&.), (.|.))
import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.ByteString.Char8 qualified as Char8
import Data.ByteString.Internal qualified as Bytes (unsafeCreateUptoN)
import Data.ByteString.Unsafe qualified as Bytes
import Data.Maybe (fromMaybe)
import Data.Word (Word8)
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Ptr (Ptr, castPtr, minusPtr)
import Heddle.Bytes.Decimal (maxDecimalLength, pokeDecimal)
import Heddle.Prim.Atomic (Words, newWords, readWord, writeWord)
import Heddle.Prim.Errno (Errno (..))
import Heddle.Walk.Find.Internal.Accounts
import Heddle.Walk.Find.Internal.Format
import Heddle.Walk.Find.Internal.Mode (renderMode, typeLetter)
import Heddle.Walk.Find.Internal.Settings (errnoText, quote)
import Heddle.Walk.Find.Internal.System
import Heddle.Walk.Internal.Entry
import Heddle.Walk.Internal.Options (Follow (..))

-- | What writers need to know.
data Renderer = Renderer
  { renderAccounts :: !Accounts,
    renderNow :: !Timestamp,
    renderFollow :: !Follow,
    -- | Is what is written for a terminal?
    renderTerminal :: !Bool,
    -- | -ls counts blocks of 512 bytes rather than 1024.
    renderPosixly :: !Bool,
    renderProgram :: !ByteString,
    renderColumns :: !Columns
  }

-- | How to write one part of a record.
data Part
  = -- | Straight into the walk's buffer.
    Straight !(Entry -> IO ())
  | -- | As a value first.
    Valued !(Entry -> IO ByteString)

-- | A writer into the walk's own output, and one that returns the record. Both are
-- 'False' or 'Nothing' when the entry's status is needed and cannot be read.
renderFormat :: Renderer -> Format -> (Entry -> IO Bool, Entry -> IO (Maybe ByteString))
renderFormat renderer (Format pieces flush) = (direct, valued)
  where
    needsStatus = or [directiveNeedsStatus d | Directive _ d <- pieces]
    ready = if needsStatus then hasStatus else const (pure True)
    direct v = do
      ok <- ready v
      when ok $ do
        straight v
        when flush (void (flushOutput v))
      pure ok
    straight = sequenceParts (map (pieceStraight renderer) pieces)
    valued v = do
      ok <- ready v
      if ok then Just . Bytes.concat <$> mapM ($ v) values else pure Nothing
    values = map (pieceValue renderer) pieces

sequenceParts :: [Entry -> IO ()] -> Entry -> IO ()
sequenceParts = foldr (\part rest v -> part v >> rest v) (const (pure ()))

pieceStraight :: Renderer -> Piece -> Entry -> IO ()
pieceStraight renderer = \case
  Verbatim text -> (`putByteString` text)
  Directive padding directive
    | padding == noPadding -> case partOf renderer directive of
      Straight write -> write
      Valued value -> \v -> value v >>= putByteString v
  piece -> \v -> pieceValue renderer piece v >>= putByteString v

pieceValue :: Renderer -> Piece -> Entry -> IO ByteString
pieceValue renderer = \case
  Verbatim text -> const (pure text)
  Directive padding (Letter 'd') -> \v -> entryDepth v >>= unsafeFormatInteger (formatOf padding "lld")
  Directive padding (Letter 'm') -> \v -> statusMode v >>= unsafeFormatInteger (formatOf padding "llo") . (.&. 0o7777)
  Directive padding (Letter 'S') -> \v -> sparseness v >>= unsafeFormatDouble (formatOf padding "g")
  Directive padding directive -> fmap (padded padding) . valueOf renderer directive
  where
    formatOf padding end = Bytes.concat [Char8.pack "%", paddingText padding, Char8.pack end]

-- Of C's flags only the minus sign means something for text.
padded :: Padding -> ByteString -> ByteString
padded (Padding flags width precision) text = case width of
  Just w
    | Bytes.length cut < w ->
      let space = Char8.replicate (w - Bytes.length cut) ' '
       in if Char8.elem '-' flags then cut <> space else space <> cut
  _ -> cut
  where
    cut = maybe text (`Bytes.take` text) precision

partOf :: Renderer -> Directive -> Part
partOf renderer directive = case directive of
  Letter 'p' | plainly -> Straight (\v -> putPath v (-1))
  Letter 'f' | plainly -> Straight $ \v -> do
    depth <- entryDepth v
    if depth == 0 then valueOf renderer directive v >>= putByteString v else entryName v (putBytes v)
  Letter 's' -> number statusSize
  Letter 'i' -> number statusInode
  Letter 'n' -> number statusLinks
  Letter 'b' -> number statusBlocks
  Letter 'U' -> number statusUser
  Letter 'G' -> number statusGroup
  Letter 'D' -> number statusDevice
  Letter 'd' -> number entryDepth
  Letter 'y' -> Straight $ \v -> do
    letter <- kindLetter <$> entryKind v
    putByte v (fromIntegral (fromEnum letter))
  _ -> Valued (valueOf renderer directive)
  where
    plainly = not (renderTerminal renderer)
    number field = Straight $ \v -> do
      n <- field v
      allocaBytes maxDecimalLength $ \p -> do
        end <- pokeDecimal p n
        putBytes v p (end `minusPtr` p)

-- What a directive stands for; after 'hasStatus', if it needs that.
valueOf :: Renderer -> Directive -> Entry -> IO ByteString
valueOf renderer = \case
  TimeOf AccessTime k -> \v -> statusAccessed v (timeIn k)
  TimeOf ModifyTime k -> \v -> statusModified v (timeIn k)
  TimeOf ChangeTime k -> \v -> statusChanged v (timeIn k)
  TimeOf BirthTime k -> \v -> statusBorn v $ \s n -> if n < 0 then pure Bytes.empty else timeIn k s n
  Letter c -> case c of
    'a' -> (`statusAccessed` plainTime)
    'c' -> (`statusChanged` plainTime)
    't' -> (`statusModified` plainTime)
    'b' -> fmap decimal . statusBlocks
    'k' -> fmap (decimal . halved) . statusBlocks
    'd' -> fmap decimal . entryDepth
    'D' -> fmap decimal . statusDevice
    'f' -> fmap shown . baseName
    'F' -> \v -> statusDevice v >>= fileSystemOf (renderAccounts renderer)
    'g' -> \v -> statusGroup v >>= account Group
    'u' -> \v -> statusUser v >>= account User
    'G' -> fmap decimal . statusGroup
    'U' -> fmap decimal . statusUser
    'h' -> fmap (shown . directoryName) . entryPath
    'H' -> \v -> Bytes.take <$> entryRootLength v <*> entryPath v
    'i' -> fmap decimal . statusInode
    'l' -> fmap shown . targetOf
    'm' -> fmap (octal . (.&. 0o7777)) . statusMode
    'M' -> fmap (renderMode . fromIntegral) . statusMode
    'n' -> fmap decimal . statusLinks
    'p' -> fmap shown . entryPath
    'P' -> \v -> shown <$> (withoutRoot <$> entryRootLength v <*> entryPath v)
    's' -> fmap decimal . statusSize
    'S' -> \v -> sparseness v >>= unsafeFormatDouble (Char8.pack "%g")
    'y' -> fmap (Char8.singleton . kindLetter) . entryKind
    'Y' -> fmap Char8.singleton . targetLetter renderer
    'Z' -> contextOf renderer
    _ -> const (pure Bytes.empty)
  where
    timeIn k s n = renderTime k (Timestamp (fromIntegral s) (fromIntegral n))
    plainTime s n = renderCtime (Timestamp (fromIntegral s) (fromIntegral n))
    shown = if renderTerminal renderer then forTerminal else id
    account kind n = fromMaybe (decimal n) <$> nameOf (renderAccounts renderer) kind n
    withoutRoot n path =
      let rest = Bytes.drop n path
       in if n > 0 && Char8.pack "/" `Bytes.isPrefixOf` rest then Bytes.drop 1 rest else rest

-- | A path as it is to be shown.
shownPath :: Bool -> Entry -> IO ByteString
shownPath terminal v = (if terminal then forTerminal else id) <$> entryPath v

decimal :: Int -> ByteString
decimal n = Bytes.unsafeCreateUptoN maxDecimalLength $ \p -> do
  end <- pokeDecimal p n
  pure (end `minusPtr` p)

octal :: Int -> ByteString
octal 0 = Char8.pack "0"
octal n = Char8.pack (go n [])
  where
    go 0 digits = digits
    go k digits = go (k `shiftR` 3) (toEnum (fromEnum '0' + (k .&. 7)) : digits)

halved :: Int -> Int
halved blocks = (blocks + 1) `div` 2

-- The last component; a starting point keeps one of its trailing slashes.
baseName :: Entry -> IO ByteString
baseName v = do
  depth <- entryDepth v
  path <- entryPath v
  let trimmed = if depth == 0 then Char8.dropWhileEnd (== '/') path else path
      name = Char8.takeWhileEnd (/= '/') trimmed
  pure $
    if Bytes.null trimmed && not (Bytes.null path)
      then Char8.pack "/"
      else if Bytes.length trimmed < Bytes.length path then name <> Char8.pack "/" else name

directoryName :: ByteString -> ByteString
directoryName path
  | Char8.notElem '/' whole = Char8.pack "."
  | otherwise = Bytes.init (fst (Char8.breakEnd (== '/') whole))
  where
    -- GNU find leaves a single character its slashes.
    trimmed = Char8.dropWhileEnd (== '/') path
    whole = if Bytes.length trimmed > 1 then trimmed else path

sparseness :: Entry -> IO Double
sparseness v = do
  size <- statusSize v
  blocks <- statusBlocks v
  pure $
    if size == 0
      then if blocks == 0 then 1 else 1 / 0
      else 512 * fromIntegral blocks / fromIntegral size

kindLetter :: Kind -> Char
kindLetter (Kind number) = typeLetter (fromIntegral (number `shiftL` 12))

-- What a link says; nothing for other files.
targetOf :: Entry -> IO ByteString
targetOf v = do
  kind <- entryKind v
  if kind /= kindLink
    then pure Bytes.empty
    else do
      directory <- entryDirectory v
      name <- entryAtName v
      linkTarget directory (castPtr name) >>= \case
        Right text -> pure text
        Left e -> reportErrno v e >> pure Bytes.empty

targetLetter :: Renderer -> Entry -> IO Char
targetLetter _ v = do
  kind <- entryKind v
  if kind /= kindLink
    then pure (kindLetter kind)
    else do
      directory <- entryDirectory v
      name <- entryAtName v
      statusOf directory name True >>= \case
        Right status -> pure (typeLetter (fromIntegral (fileMode status)))
        Left (Errno 2) -> pure 'N'
        Left (Errno 20) -> pure 'N'
        Left (Errno 40) -> pure 'L'
        Left e -> reportErrno v e >> pure '?'

contextOf :: Renderer -> Entry -> IO ByteString
contextOf renderer v = do
  path <- entryPath v
  securityContext path (if renderFollow renderer == FollowAll then ItsTarget else TheLink) >>= \case
    Right context -> pure context
    Left e -> do
      reportText v $
        Bytes.concat
          [renderProgram renderer, Char8.pack ": getfilecon failed: ", quote path, Char8.pack ": ", errnoText e, Char8.pack "\n"]
      pure Bytes.empty

-- | The widths of -ls's columns, which grow with what is in them.
newtype Columns = Columns Words

-- | GNU find's first widths: inode, blocks, links, user, group, size, major, minor.
newColumns :: IO Columns
newColumns = do
  widths <- newWords 8
  mapM_ (uncurry (writeWord widths)) (zip [0 ..] [9, 6, 3, 8, 8, 8, 3, 3])
  pure (Columns widths)

-- | A line of -ls; 'Nothing' when the entry's status cannot be read.
renderList :: Renderer -> Entry -> IO (Maybe ByteString)
renderList renderer v = do
  ok <- hasStatus v
  if not ok
    then pure Nothing
    else do
      mode <- statusMode v
      inode <- rightIn 0 . decimal =<< statusInode v
      blocks <- rightIn 1 . decimal . (if renderPosixly renderer then id else halved) =<< statusBlocks v
      links <- rightIn 2 . decimal =<< statusLinks v
      user <- leftIn 3 =<< account User =<< statusUser v
      group <- leftIn 4 =<< account Group =<< statusGroup v
      size <-
        if typeLetter (fromIntegral mode) `elem` "bc"
          then do
            (major, minor) <- deviceParts <$> statusSpecial v
            first <- rightIn 6 (decimal major)
            second <- rightIn 7 (decimal minor)
            pure (Bytes.concat [first, Char8.pack ", ", second])
          else rightIn 5 . decimal =<< statusSize v
      time <- statusModified v (\s n -> renderListTime (renderNow renderer) (Timestamp (fromIntegral s) (fromIntegral n)))
      path <- entryPath v
      target <- targetOf v
      kind <- entryKind v
      pure . Just . Bytes.concat $
        [inode, space, blocks, space, renderMode (fromIntegral mode), space, links, space, user, space, group, space, size, space, time, space, escaped path]
          ++ [part | kind == kindLink, not (Bytes.null target), part <- [Char8.pack " -> ", escaped target]]
          ++ [Char8.pack "\n"]
  where
    space = Char8.pack " "
    account kind n = fromMaybe (decimal n) <$> nameOf (renderAccounts renderer) kind n
    Columns widths = renderColumns renderer
    rightIn i text = (\w -> Char8.replicate (w - Bytes.length text) ' ' <> text) <$> widen i text
    leftIn i text = (\w -> text <> Char8.replicate (w - Bytes.length text) ' ') <$> widen i text
    -- Two workers may widen at once; the next line puts it right.
    widen i text = do
      width <- readWord widths i
      if Bytes.length text > width
        then writeWord widths i (Bytes.length text) >> pure (Bytes.length text)
        else pure width
    -- As major(3) and minor(3) of the GNU C library.
    deviceParts n =
      ( ((n `shiftR` 8) .&. 0xfff) .|. ((n `shiftR` 32) .&. 0xfffff000),
        (n .&. 0xff) .|. ((n `shiftR` 12) .&. 0xffffff00)
      )

-- Spaces, quotes and whatever is not printable in ASCII, as C writes it.
escaped :: ByteString -> ByteString
escaped text
  | Bytes.all plain text = text
  | otherwise = Bytes.unsafeCreateUptoN (4 * Bytes.length text + 1) $ \out ->
    Bytes.unsafeUseAsCStringLen text $ \(p, n) -> c_escape (castPtr p) n out
  where
    plain c = c > 0x20 && c < 0x7f && c /= 0x5c && c /= 0x22

-- Unsafe: computes on memory.
foreign import ccall unsafe "heddle_find_escape" c_escape :: Ptr Word8 -> Int -> Ptr Word8 -> IO Int
