{-# LANGUAGE PatternSynonyms #-}
{-# OPTIONS_HADDOCK not-home #-}

-- |
-- Module      : Heddle.Walk.Find.Internal.Compile
-- Description : From expressions to what runs for every entry
-- Stability   : internal, exempt from the version policy
--
-- Each test becomes a function of the entry that looks at no more than it must: the name,
-- then the kind that the directory gave, then the status. Tests that follow one another
-- are asked cheapest first; nothing is moved across an action.
--
-- Shared writes per entry: 0, but for those of actions.
--
-- Cost: a few ns per test on the name or kind; no allocation.
-- Owner: the run.
module Heddle.Walk.Find.Internal.Compile
  ( Environment (..),
    compileVisitor,
    optimise,
    testCost,
  )
where

import Data.Bits (testBit, (.&.), (.|.))
import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.ByteString.Char8 qualified as Char8
import Data.ByteString.Unsafe qualified as Bytes
import Data.List (sortOn)
import Data.Word (Word8)
import Foreign.Ptr (Ptr, castPtr)
import Foreign.Storable (peekByteOff)
import Heddle.Bytes.Regex (matchRegex)
import Heddle.Prim.Errno (pattern ELOOP, pattern ENOENT, pattern ENOTDIR)
import Heddle.Prim.Exception (catch)
import Heddle.Walk.Find.Internal.Accounts
import Heddle.Walk.Find.Internal.Format (Format, asksForFileSystem)
import Heddle.Walk.Find.Internal.Number
import Heddle.Walk.Find.Internal.Outputs (Outputs, putRecord)
import Heddle.Walk.Find.Internal.Pattern (matchPattern)
import Heddle.Walk.Find.Internal.Programs (Programs, runFor)
import Heddle.Walk.Find.Internal.Render
import Heddle.Walk.Find.Internal.Settings (errnoText, quote)
import Heddle.Walk.Find.Internal.Syntax
import Heddle.Walk.Find.Internal.System hiding (Account (..))
import Heddle.Walk.Find.Internal.System qualified as System
import Heddle.Walk.Internal.Entry
import Heddle.Walk.Internal.Options (Follow (..), WalkControl (..))

-- | What a run has besides its expression.
data Environment = Environment
  { envProgram :: !ByteString,
    envFollow :: !Follow,
    -- | Must effects wait for their turn, since the walk may be cut off to the left?
    envSorted :: !Bool,
    -- | Stop after the first entry for which the expression is true.
    envFirst :: !Bool,
    envIgnoreRace :: !Bool,
    envAccounts :: !Accounts,
    envOutputs :: !Outputs,
    envPrograms :: !Programs,
    -- | For standard output, and for other files.
    envRenderer :: !Renderer,
    envFileRenderer :: !Renderer
  }

-- | A visitor that evaluates the expression.
--
-- [Cost]: compiling is O(size); see the module's header for visits.
compileVisitor :: Environment -> Expr -> Visitor
compileVisitor env expr
  | asksForMounts best = \v -> visit v `catch` \e -> Quit <$ reportText v (unreadable e)
  | otherwise = visit
  where
    best = optimise expr
    visit = compilePlain env best
    unreadable e = Bytes.concat [envProgram env, Char8.pack ": ", mountsProblem e, Char8.pack "\n"]

-- Does it contain -fstype or %F?
asksForMounts :: Expr -> Bool
asksForMounts expr =
  or [True | OnFileSystem _ <- tests expr] || or [asksForFileSystem format | Printf _ format <- actions expr]

compilePlain :: Environment -> Expr -> Visitor
compilePlain env best
  | flows best = \v -> do
    outcome <- compileFlow env best v
    pure $
      if stops outcome || (envFirst env && holds outcome)
        then Quit
        else if prunes outcome then Prune else Descend
  | envFirst env = \v -> do
    found <- run v
    pure (if found then Quit else Descend)
  | otherwise = \v -> Descend <$ run v
  where
    run = compileBool env best

-- | The same expression, tests that follow one another sorted by cost, constants folded.
optimise :: Expr -> Expr
optimise = \case
  Not e -> case optimise e of
    Constant b -> Constant (not b)
    inner -> Not inner
  And a b -> chain And True (conjuncts (And (optimise a) (optimise b)))
  Or a b -> chain Or False (disjuncts (Or (optimise a) (optimise b)))
  List a b -> case optimise a of
    Constant _ -> optimise b
    first -> List first (optimise b)
  other -> other
  where
    conjuncts = \case
      And a b -> conjuncts a ++ conjuncts b
      e -> [e]
    disjuncts = \case
      Or a b -> disjuncts a ++ disjuncts b
      e -> [e]
    chain join neutral parts = case cut neutral (sorted (filter (not . isConstant neutral) parts)) of
      [] -> Constant neutral
      list -> foldr1 join list
    isConstant neutral = \case
      Constant b -> b == neutral
      _ -> False
    -- Nothing behind a part that decides everything is ever evaluated.
    cut neutral parts = case break (isConstant (not neutral)) parts of
      (before, decisive : _) -> before ++ [decisive]
      (before, []) -> before
    -- Runs of parts without actions, each sorted; a constant stays where it is.
    sorted parts = case span movable parts of
      ([], []) -> []
      ([], fixed : rest) -> fixed : sorted rest
      (run, rest) -> sortOn exprCost run ++ sorted rest
    movable e = pureExpr e && not (isConstant True e) && not (isConstant False e)

exprCost :: Expr -> Int
exprCost e = maximum (0 : map testCost (tests e))

-- | How much must be looked at: 0 the name, 1 the path, 2 the kind, 3 the status, 4 more
-- of the file system.
testCost :: Test -> Int
testCost = \case
  Name _ -> 0
  Path _ -> 1
  PathRegex _ -> 1
  Type _ -> 2
  Inode _ -> 2
  LinkTarget _ -> 4
  OtherType _ -> 4
  Empty -> 4
  Accessible _ -> 4
  OnFileSystem _ -> 4
  _ -> 3

-- | Does it contain -prune or -quit?
flows :: Expr -> Bool
flows e = not (null [() | PruneHere <- found]) || not (null [() | QuitNow <- found])
  where
    found = actions e

-- Bits: truth, prune, quit.
newtype Outcome = Outcome Int

holds, prunes, stops :: Outcome -> Bool
holds (Outcome o) = testBit o 0
prunes (Outcome o) = testBit o 1
stops (Outcome o) = testBit o 2

compileFlow :: Environment -> Expr -> Entry -> IO Outcome
compileFlow env expr
  | not (flows expr) =
    let run = compileBool env expr
     in fmap (\b -> if b then Outcome 1 else Outcome 0) . run
  | otherwise = case expr of
    Action PruneHere -> const (pure (Outcome 3))
    Action QuitNow -> const (pure (Outcome 5))
    Not e ->
      let run = compileFlow env e
       in fmap (\(Outcome o) -> Outcome (if testBit o 0 then o .&. 6 else o .|. 1)) . run
    And a b -> both a b (\first -> holds first && not (stops first)) id
    Or a b -> both a b (\first -> not (holds first) && not (stops first)) id
    List a b -> both a b (not . stops) (\(Outcome o) -> Outcome (o .&. 6))
    _ -> const (pure (Outcome 0))
  where
    both a b goesOn kept =
      let first = compileFlow env a
          second = compileFlow env b
       in \v -> do
            one <- first v
            if goesOn one
              then do
                Outcome two <- second v
                let Outcome before = kept one
                pure (Outcome (two .|. (before .&. 6)))
              else pure one

compileBool :: Environment -> Expr -> Entry -> IO Bool
compileBool env = \case
  Constant b -> const (pure b)
  Test t -> compileTest env t
  Action a -> compileAction env a
  Not e -> let run = compileBool env e in fmap not . run
  And a b ->
    let first = compileBool env a
        second = compileBool env b
     in \v -> first v >>= \ok -> if ok then second v else pure False
  Or a b ->
    let first = compileBool env a
        second = compileBool env b
     in \v -> first v >>= \ok -> if ok then pure True else second v
  List a b ->
    let first = compileBool env a
        second = compileBool env b
     in \v -> first v >> second v

compileTest :: Environment -> Test -> Entry -> IO Bool
compileTest env = \case
  Name pattern' -> let match = matchPattern pattern' in \v -> entryName v (terminated match)
  Path pattern' -> let match = matchPattern pattern' in (`entryPathBytes` match)
  PathRegex regex -> let match = matchRegex regex in (`entryPathBytes` match)
  LinkTarget pattern' -> \v ->
    withLink v False $ \target -> Bytes.useAsCStringLen (Bytes.snoc target 0) $ \(p, n) ->
      matchPattern pattern' (castPtr p) (n - 1)
  Type types -> fmap (\(Kind k) -> hasFileType types k) . entryKind
  OtherType types -> otherType env types
  Size (Count comparison n) unit ->
    let satisfies = matchesCount (Count comparison n)
        units = fromIntegral unit :: Int
     in \v -> status v $ do
          size <- statusSize v
          pure (satisfies (fromIntegral (size `quot` units + (if size `rem` units /= 0 then 1 else 0))))
  Links count -> number count statusLinks
  Inode count -> let satisfies = matchesCount count in fmap (satisfies . fromIntegral) . entryInode
  UserNumber count -> number count statusUser
  GroupNumber count -> number count statusGroup
  OwnedBy user -> let wanted = fromIntegral user in \v -> status v ((== wanted) <$> statusUser v)
  OfGroup group -> let wanted = fromIntegral group in \v -> status v ((== wanted) <$> statusGroup v)
  NoUser -> \v -> status v (statusUser v >>= fmap not . hasName (envAccounts env) System.User)
  NoGroup -> \v -> status v (statusGroup v >>= fmap not . hasName (envAccounts env) System.Group)
  Perm match forFiles forDirectories -> \v -> status v $ do
    mode <- statusMode v
    let bits = fromIntegral (if mode .&. 0o170000 == 0o040000 then forDirectories else forFiles) :: Int
    pure $ case match of
      PermExactly -> mode .&. 0o7777 == bits
      PermAll -> mode .&. bits == bits
      PermAny -> bits == 0 || mode .&. bits /= 0
  InWindow clock window -> let matches = matchesWindow window in \v -> status v (clockOf clock v matches)
  Newer clock limit -> \v -> status v (clockOf clock v (> limit))
  Used age -> \v -> status v $
    statusChanged v $ \s n -> statusAccessed v $ \a b ->
      pure (matchesAge age (stamp s n) (stamp a b))
  SameFile device inode -> \v -> do
    i <- entryInode v
    if i /= fromIntegral inode then pure False else status v ((== fromIntegral device) <$> statusDevice v)
  Empty -> isEmptyEntry env
  Accessible access ->
    let how = case access of Executable -> 1; Writable -> 2; Readable -> 4
     in \v -> do
          directory <- entryDirectory v
          name <- entryAtName v
          mayAccess directory (castPtr name) how
  OnFileSystem kind -> \v -> status v (statusDevice v >>= fmap (== kind) . fileSystemOf (envAccounts env))
  where
    number count field = let satisfies = matchesCount count in \v -> status v (satisfies . fromIntegral <$> field v)
    clockOf clock v test = case clock of
      Accessed -> statusAccessed v (\s n -> pure (test (stamp s n)))
      Modified -> statusModified v (\s n -> pure (test (stamp s n)))
      Changed -> statusChanged v (\s n -> pure (test (stamp s n)))
      Born -> statusBorn v (\s n -> pure (n >= 0 && test (stamp s n)))
    stamp s n = Timestamp (fromIntegral s) (fromIntegral n)

-- With the status read.
status :: Entry -> IO Bool -> IO Bool
status v test = do
  ok <- hasStatus v
  if ok then test else pure False
{-# INLINE status #-}

-- fnmatch(3) wants a NUL, which a starting point's trailing slashes are in the way of.
terminated :: (Ptr Word8 -> Int -> IO Bool) -> Ptr Word8 -> Int -> IO Bool
terminated match p n = do
  end <- peekByteOff p n :: IO Word8
  if end == 0
    then match p n
    else do
      copy <- Bytes.packCStringLen (castPtr p, n)
      Bytes.unsafeUseAsCString (Bytes.snoc copy 0) (\q -> match (castPtr q) n)
{-# INLINE terminated #-}

withLink :: Entry -> a -> (ByteString -> IO a) -> IO a
withLink v other use = do
  kind <- entryKind v
  if kind /= kindLink
    then pure other
    else do
      directory <- entryDirectory v
      name <- entryAtName v
      linkTarget directory (castPtr name) >>= \case
        Right target -> use target
        Left e -> reportErrno v e >> pure other

-- The type of what a link leads to; with -L, of the link itself.
otherType :: Environment -> FileTypes -> Entry -> IO Bool
otherType env types v = do
  depth <- entryDepth v
  let towards = case envFollow env of
        FollowNone -> True
        FollowRoots -> depth > 0
        FollowAll -> False
      -- An entry that is not a link is the same on both sides.
      linkAtAll kind = kind == kindLink || not towards
  kind@(Kind number) <- entryKind v
  if not (linkAtAll kind)
    then pure (hasFileType types number)
    else do
      directory <- entryDirectory v
      name <- entryAtName v
      statusOf directory name towards >>= \case
        Right found -> pure (hasFileType types ((fileMode found `div` 4096) .&. 15))
        Left e
          -- What leads nowhere, or round in a circle, is a link.
          | e `elem` [ENOENT, ENOTDIR, ELOOP] -> pure (hasFileType types number)
          | otherwise -> reportErrno v e >> pure False

isEmptyEntry :: Environment -> Entry -> IO Bool
isEmptyEntry env v = do
  kind <- entryKind v
  if kind == kindDirectory
    then do
      depth <- entryDepth v
      directory <- entryDirectory v
      name <- entryAtName v
      let follow = case envFollow env of
            FollowAll -> ItsTarget
            FollowRoots | depth == 0 -> ItsTarget
            _ -> TheLink
      emptyDirectory directory (castPtr name) follow >>= \case
        Right empty -> pure empty
        Left e -> reportErrno v e >> pure False
    else if kind == kindFile then status v ((== 0) <$> statusSize v) else pure False

compileAction :: Environment -> Action -> Entry -> IO Bool
compileAction env = \case
  Print sink -> line sink 10
  Print0 sink -> case sink of
    StandardOutput -> \v -> True <$ putPath v 0
    _ -> \v -> True <$ (entryPath v >>= put sink v . (`Bytes.snoc` 0))
  Printf sink format -> printf sink format
  List' sink -> \v ->
    renderList (rendererFor sink) v >>= \case
      Just record -> True <$ put sink v record
      Nothing -> pure False
  Delete -> delete env
  PruneHere -> const (pure True)
  QuitNow -> const (pure True)
  Exec spec -> runFor (envPrograms env) spec
  where
    put = putRecord (envProgram env) (envOutputs env)
    rendererFor = \case
      StandardOutput -> envRenderer env
      _ -> envFileRenderer env
    line sink end = case sink of
      StandardOutput
        | not (renderTerminal (envRenderer env)) -> \v -> True <$ putPath v (fromIntegral end)
      _ -> \v -> True <$ (shownPath (renderTerminal (rendererFor sink)) v >>= put sink v . (`Bytes.snoc` end))
    printf :: Sink -> Format -> Entry -> IO Bool
    printf sink format = case sink of
      StandardOutput -> fst (renderFormat (envRenderer env) format)
      _ ->
        let value = snd (renderFormat (envFileRenderer env) format)
         in \v ->
              value v >>= \case
                Just record -> True <$ put sink v record
                Nothing -> pure False

-- The working directory itself is left alone.
delete :: Environment -> Entry -> IO Bool
delete env v = do
  mine <- if envSorted env then flushOutput v else pure True
  isHere <- entryName v (\p n -> if n == 1 then (== (46 :: Word8)) <$> peekByteOff p 0 else pure False)
  depth <- entryDepth v
  path <- if isHere && depth == 0 then entryPath v else pure Bytes.empty
  if not mine
    then pure False
    else
      if path == Char8.pack "."
        then pure True
        else do
          kind <- entryKind v
          directory <- entryDirectory v
          name <- entryAtName v
          removeName directory (castPtr name) (kind == kindDirectory) >>= \case
            Right () -> pure True
            Left ENOENT | envIgnoreRace env -> pure True
            Left e -> do
              whole <- entryPath v
              reportText v $
                Bytes.concat [envProgram env, Char8.pack ": cannot delete ", quote whole, Char8.pack ": ", errnoText e, Char8.pack "\n"]
              pure False
