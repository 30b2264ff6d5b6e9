-- | A small language of programs with rendezvous, as data: the library runs them, and a
-- reference interpreter says what must come out.
--
-- A branch's whole state is one number, its digest: everything that it receives, and what
-- its own branches end with, is mixed in, and what it sends is made of it. So one value
-- received out of turn changes nearly everything after it.
module Program
  ( -- * The language
    Program,
    Var,
    Cmd (..),
    Branch (..),
    Grant (..),
    Catch (..),

    -- * What both interpreters compute alike
    mix,
    mixText,
    start,
    channelName,

    -- * Legal programs
    legal,
    withoutEffects,
    shrinkProgram,
    commands,
  )
where

import Data.Char (ord)
import Data.Foldable qualified as Foldable
import Data.Map.Strict (Map)
import Data.Map.Strict qualified as Map

-- | What main does.
type Program = [Cmd]

-- | A channel, by number. The same number made again is another channel.
type Var = Int

-- | What a branch does next.
data Cmd
  = New Var
  | -- | Send the digest plus so much.
    Send Var Int
  | Recv Var
  | Par [Branch]
  | Loop Int [Cmd]
  | -- | Only if the digest leaves this remainder by 3.
    When Int [Cmd]
  | Throw Int
  | -- | An 'error' in pure code.
    Crash Int
  | -- | Send a value whose evaluation crashes.
    SendCrash Var Int
  | -- | On a caught exception the digest is what it was before, with the exception mixed in.
    Try Catch [Cmd]
  | -- | The branch ends here.
    End
  | -- | With the world, if the branch has it.
    Effect Int
  | -- | A search: alternatives that end with an even digest are hits.
    Leftmost [[Cmd]]
  deriving stock (Eq, Show)

-- | What it is granted, whether it is granted the world, what it does.
data Branch = Branch [Grant] Bool [Cmd]
  deriving stock (Eq, Show)

-- | Of this channel the writer's end, a reader's end.
data Grant = Grant Var Bool Bool
  deriving stock (Eq, Show)

-- | What a try catches.
data Catch = CatchBoom | CatchEnded | CatchPoisoned | CatchDuplicate | CatchAll
  deriving stock (Bounded, Enum, Eq, Show)

-- | A digest with one more number in it.
mix :: Int -> Int -> Int
mix digest n = (digest * 31 + n + 7) `mod` 1000003

mixText :: Int -> String -> Int
mixText = Foldable.foldl' (\d c -> mix d (ord c))

-- | The digest of a branch that has seen nothing.
start :: Int
start = 1

channelName :: Var -> String
channelName v = 'c' : show v

-- | What a branch may do with a channel: it made it, so that it may grant both ends; or it
-- was granted the writer's end, a reader's end.
data Held = Owned | Given Bool Bool

-- | The program without the commands and grants that have no meaning, because no end is
-- held for them. Everything that is left translates to a well-typed program.
legal :: Program -> Program
legal = fst . sequence' Map.empty True

-- | The same for a run without the world.
withoutEffects :: Program -> Program
withoutEffects = fst . sequence' Map.empty False

sequence' :: Map Var Held -> Bool -> [Cmd] -> ([Cmd], Map Var Held)
sequence' held world = go held []
  where
    go h done [] = (reverse done, h)
    go h done (c : cs) = case c of
      New v -> go (Map.insert v Owned h) (c : done) cs
      Send v _ | writes v -> go h (c : done) cs
      SendCrash v _ | writes v -> go h (c : done) cs
      Recv v | Just (Given _ True) <- Map.lookup v h -> go h (c : done) cs
      Par bs -> go h (Par (map (branchOf h) bs) : done) cs
      Loop n body -> go h (Loop n (inside body) : done) cs
      When n body -> go h (When n (inside body) : done) cs
      Try e body -> go h (Try e (inside body) : done) cs
      Leftmost alternatives -> go h (Leftmost (map (fst . sequence' Map.empty False) alternatives) : done) cs
      Effect _ | world -> go h (c : done) cs
      Throw _ -> go h (c : done) cs
      Crash _ -> go h (c : done) cs
      End -> go h (c : done) cs
      _ -> go h done cs
      where
        writes v = case Map.lookup v h of
          Just (Given True _) -> True
          _ -> False
        inside = fst . sequence' h world
    branchOf h (Branch grants w body) = Branch granted w' (fst (sequence' (Map.fromList (map given granted)) w' body))
      where
        w' = w && world
        granted =
          [ Grant v writer reader
            | (v, (w0, r0)) <- Map.toList (Map.fromListWith orBoth [(v, (a, b)) | Grant v a b <- grants]),
              Just have <- [Map.lookup v h],
              let (writer, reader) = may have w0 r0,
              writer || reader
          ]
        given (Grant v a b) = (v, Given a b)
        orBoth (a, b) (c, d) = (a || c, b || d)
        may Owned a b = (a, b)
        may (Given a b) c d = (a && c, b && d)

-- | Smaller programs, legal again.
shrinkProgram :: Program -> [Program]
shrinkProgram p = [q | q <- map legal (shrinkCmds p), q /= p]

shrinkCmds :: [Cmd] -> [[Cmd]]
shrinkCmds cs =
  [take k cs ++ drop (k + size) cs | size <- halves (length cs), k <- [0, size .. length cs - 1]]
    ++ [before ++ new ++ after | (before, c, after) <- places cs, new <- shrinkCmd c]
  where
    halves n = takeWhile (> 0) (iterate (`quot` 2) n)

shrinkCmd :: Cmd -> [[Cmd]]
shrinkCmd = \case
  Par bs ->
    [[Par (before ++ after)] | (before, _, after) <- places bs]
      ++ [[Par (before ++ b' : after)] | (before, b, after) <- places bs, b' <- shrinkBranch b]
  Loop n body -> body : [[Loop n' body] | n' <- [1 .. n - 1]] ++ [[Loop n b] | b <- shrinkCmds body]
  When n body -> body : [[When n b] | b <- shrinkCmds body]
  Try e body -> body : [[Try e b] | b <- shrinkCmds body]
  Leftmost as ->
    [[Leftmost (before ++ after)] | (before, _, after) <- places as]
      ++ [[Leftmost (before ++ a' : after)] | (before, a, after) <- places as, a' <- shrinkCmds a]
  Send v n | n /= 0 -> [[Send v 0]]
  _ -> []

shrinkBranch :: Branch -> [Branch]
shrinkBranch (Branch grants world body) =
  [Branch (before ++ after) world body | (before, _, after) <- places grants]
    ++ [Branch (before ++ g : after) world body | (before, Grant v True True, after) <- places grants, g <- [Grant v True False, Grant v False True]]
    ++ [Branch grants False body | world]
    ++ [Branch grants world b | b <- shrinkCmds body]

places :: [a] -> [([a], a, [a])]
places xs = [(take i xs, x, drop (i + 1) xs) | (i, x) <- zip [0 ..] xs]

-- | How many commands it has.
commands :: [Cmd] -> Int
commands = sum . map size
  where
    size = \case
      Par bs -> 1 + sum [commands body | Branch _ _ body <- bs]
      Loop _ body -> 1 + commands body
      When _ body -> 1 + commands body
      Try _ body -> 1 + commands body
      Leftmost as -> 1 + sum (map commands as)
      _ -> 1
